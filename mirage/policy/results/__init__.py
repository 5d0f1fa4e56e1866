"""What policies came to on past hand-overs, compared, and read from the cards of models."""
