"""Training of policies: a trainer of each kind, and the artefact that comes of episode tables."""
