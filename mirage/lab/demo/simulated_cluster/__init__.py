"""Run the simulator as a cluster, with simulated users who submit chains."""
