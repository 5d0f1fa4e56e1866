"""Finds out who sends a request.

A session cookie identifies a browser. The kernel names the user at the other end of a local
connection.
"""
