"""Compare two sessions, a fork with its origin, or a notebook before and after a replay."""
