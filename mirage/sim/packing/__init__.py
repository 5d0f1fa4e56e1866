"""Turns parameters, names and jobs into arrays, and makes those arrays large enough."""
