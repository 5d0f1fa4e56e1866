"""Forecast the waits of jobs, and learn from outcomes how good the forecasts are."""
