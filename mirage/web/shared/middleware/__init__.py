"""ASGI layers around the whole application: HEAD requests, the host check, entity tags."""
