"""Decides when to make a standby successor eligible."""
