"""Policies that are neural networks: DQN and policy gradient, trained on whole runs of
predecessors."""
