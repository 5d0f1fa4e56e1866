"""Calibration of the simulator: what a log shows of its cluster, the settings to search, and the
cluster file fitted to the log."""
