"""Learning from the service's own history: from the stored jobs to a model that may be proposed."""
