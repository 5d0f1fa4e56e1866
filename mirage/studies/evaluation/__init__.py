"""Evaluation of policies on episode tables: who decided for auto, and the Pareto plot."""
