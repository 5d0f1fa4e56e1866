"""Forecasts of waits and how they turned out: of handovers, of new jobs, of job shapes, and
trials for calibration.
"""
