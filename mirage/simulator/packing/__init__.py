"""Packs parameters, names and jobs into arrays, and allocates these arrays."""
