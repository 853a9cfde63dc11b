"""What a replay tells the kernel about the cell it sends."""

# The execution count that the cell would have if the whole notebook ran.
NUMBER = "rlmnb_number"
# Variables that are to be gone before it runs: no cell above it has made them.
LEFT_OVER = "rlmnb_left_over"
