"""Summarise the stored history for people: queue, waits, chains, forecast accuracy and impact."""
