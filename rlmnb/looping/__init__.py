"""A question answered over a session's kernel, step by step: each step is a cell."""
