"""Trace files: one parser for each format, detection of the format, and the checks that every
row passes.
"""
