"""What a policy gets to see: one observation, the same in training and in service."""
