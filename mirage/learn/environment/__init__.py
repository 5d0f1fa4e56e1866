"""A hand-over as a Gymnasium environment: over episode tables, or live on the simulator."""
