"""Observe the live cluster for trained models and the twin, as models saw it in training."""
