"""Commands that build episode tables, evaluate and train policies, manage models, and report."""
