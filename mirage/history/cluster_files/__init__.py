"""Cluster files (C.toml): parsers and writers of simulated machines and their scheduler
settings.
"""
