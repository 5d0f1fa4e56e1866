"""What the system does: one use-case a function, over ports and the store."""
