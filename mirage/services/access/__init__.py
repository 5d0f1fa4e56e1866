"""Establish who a caller is, what they may do, and how much of it."""
