"""Finds out who sends a request.

Callers are known by a session cookie, or because the kernel names the user at the other end
of the connection.
"""
