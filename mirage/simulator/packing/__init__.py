"""Packs parameters, names and jobs into arrays, and gives these arrays enough room."""
