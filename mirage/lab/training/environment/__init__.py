"""A hand-over as a Gymnasium environment, over episode tables."""
