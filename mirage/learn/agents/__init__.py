"""Policies of networks: DQN and policy gradient, learned from whole runs of predecessors."""
