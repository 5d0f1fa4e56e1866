"""Compares the results of policies on past hand-overs, read from the cards of models."""
