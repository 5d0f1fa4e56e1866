"""The twin: the cluster simulated forward from now, in futures drawn from its own history."""
