"""Calibration of the simulator: what a log shows of its cluster, the settings to search, and the
fidelity of a replay.
"""
