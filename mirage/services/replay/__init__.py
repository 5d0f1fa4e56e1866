"""Replay recorded traces on the simulator: simulation, calibration and twin tables."""
