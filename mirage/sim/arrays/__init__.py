"""The flat integer arrays of a simulator: where values stand, how they move, and how functions
over them are compiled.
"""
