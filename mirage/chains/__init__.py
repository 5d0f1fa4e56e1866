"""Follow chains and their links: registration, ownership, state, and their owners' requests."""
