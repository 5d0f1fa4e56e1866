"""Who may read and change: tokens, browser sessions, idempotency keys, and the conditions that
narrow rows to their owners.
"""
