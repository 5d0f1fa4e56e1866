"""Follow chains and their links: registration, ownership, state, and what their owners ask for."""
