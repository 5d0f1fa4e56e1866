"""Training of policies. It needs the extra `train`; the service never loads it."""
