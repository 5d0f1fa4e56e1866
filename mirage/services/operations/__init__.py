"""Report on the running service itself, and prune what it has stored."""
