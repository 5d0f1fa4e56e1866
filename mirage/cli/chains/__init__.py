"""Commands for users: chains and their timelines, the overview, wait forecasts, the wrapped sbatch,
and the commands that a chain's job runs.
"""
