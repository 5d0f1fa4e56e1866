"""Computes the observation that a policy sees: the same in training and in service."""
