"""Find out who a caller is, what the caller may do, and how often."""
