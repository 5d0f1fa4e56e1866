"""Rules without training: leads, pins, the expected cost of a release, and a chain's bounds."""
