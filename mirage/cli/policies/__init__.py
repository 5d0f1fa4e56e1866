"""Commands that build episode tables, evaluate and train policies, and manage models."""
