"""When to make a standby successor eligible."""
