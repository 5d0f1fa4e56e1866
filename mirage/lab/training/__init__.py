"""Learning to decide. Needs the extra `train`; the service never loads it."""
