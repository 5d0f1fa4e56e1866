"""Stores who may read and change: tokens, browser sessions and idempotency keys.

It also builds the conditions that narrow rows to their owners.
"""
