"""Hand-overs as counterfactual tables: made from a trace, kept in a file, judged against."""
