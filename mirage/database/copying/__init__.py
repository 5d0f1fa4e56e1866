"""Copies a whole database into another one: rows as both kinds store them, and the progress."""
