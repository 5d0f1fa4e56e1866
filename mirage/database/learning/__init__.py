"""Stores the runs of learning, and the models that stood for promotion."""
