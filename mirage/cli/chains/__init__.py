"""Commands for people with jobs: chains and their timelines, the overview, wait forecasts, the
plugin and what links say.
"""
