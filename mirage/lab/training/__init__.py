"""Training of policies. Trees need the extra `trees`, agents `train`; the service loads neither."""
