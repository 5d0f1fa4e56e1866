"""Who may see and change what: callers, principals, and what the service's own account may move."""
