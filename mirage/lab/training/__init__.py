"""Learning to decide. Trees need the extra `trees`, agents `train`; the service loads neither."""
