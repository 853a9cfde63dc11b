"""What a replay tells the kernel about the cell it sends."""

# The execution count that the cell would have if the whole notebook ran.
NUMBER = "rlmnb_number"
