"""Policies that need no training, what decides in another's place, and the boundary of lateness."""
