"""Judges learned policies: splits by time, scores of a forecast, operating points."""
