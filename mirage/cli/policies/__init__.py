"""Commands that simulate hand-overs, train and evaluate policies, manage models, and report."""
