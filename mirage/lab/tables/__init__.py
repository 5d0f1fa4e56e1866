"""Episode tables as the commands make them: options of the pair, plan, twin's forecasts, report."""
