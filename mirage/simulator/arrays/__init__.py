"""The flat integer arrays of a simulator: their layout, their changes, and the compiler of the
functions that use them."""
