"""Cluster files (C.toml): reads and writes simulated machines and their scheduler settings."""
