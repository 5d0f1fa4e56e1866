"""Keeps a trained model: its card, its weights, and its results on weeks held out."""
