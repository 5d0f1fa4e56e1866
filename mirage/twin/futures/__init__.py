"""Possible futures of a cluster, sampled from its history: how long jobs run, and which jobs
arrive.
"""
