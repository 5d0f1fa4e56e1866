"""Evaluation of policies on episode tables: the choices of each, their figures,
and the Pareto plot.
"""
