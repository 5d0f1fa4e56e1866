"""The policy `auto`, which picks a candidate for each hand-over, live and over an episode table."""
