"""Doubles for what a test cannot have: a model at the other end of an API."""
