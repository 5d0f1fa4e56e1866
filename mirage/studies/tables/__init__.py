"""Episode tables as people ask for them: the pair, the plan, the twin's answers, what is told."""
