"""Use-cases without a command line: evaluation of policies, their comparison on a simulated
cluster, and the shadow report.
"""
