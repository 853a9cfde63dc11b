"""Run outside: the managed kernel, and nbclient driving it."""
