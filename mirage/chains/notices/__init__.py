"""Finds news about chains that people must know, and delivers it."""
