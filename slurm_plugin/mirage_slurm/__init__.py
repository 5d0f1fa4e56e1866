"""Mirage's part on login nodes and in jobs: standard library, Python 3.6. The folder around it has programs."""
