"""Episode tables as people ask for them: the pair, the plan, the twin's forecasts, and the
report."""
