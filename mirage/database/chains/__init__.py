"""Chains and their links: decisions on them, moves made for them, and the outcomes of their
handovers.
"""
