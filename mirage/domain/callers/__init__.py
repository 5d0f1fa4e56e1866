"""Tells who may see and change what.

That is callers, principals, and what the service's own account may move.
"""
