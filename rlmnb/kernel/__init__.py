"""Run inside: the kernel, what a cell reads and writes, and the state it leaves."""
