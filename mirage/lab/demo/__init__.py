"""Policies compared side by side on a simulated cluster: the scenario, the chains, the demo."""
