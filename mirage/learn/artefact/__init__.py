"""What a trained model is kept as: its card, its weights, and its results on weeks held out."""
