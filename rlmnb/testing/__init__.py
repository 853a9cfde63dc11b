"""Doubles for what a test cannot have: so far, a model at the other end of the Messages API."""
