"""Stores what happened, for others to read.

That is numbered changes, the audit, and notices that wait to be sent.
"""
