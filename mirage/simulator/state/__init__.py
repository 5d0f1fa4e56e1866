"""Kernels that change the state of jobs and nodes: queue, eligibility, limits, fair share, node
selection.
"""
