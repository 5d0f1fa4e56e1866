"""Imports trace files into the stored history, and exports the history to one."""
