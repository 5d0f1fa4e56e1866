"""Turns one instant into a row of numbers: the queue, the recent past and the handover, as a policy
sees them."""
