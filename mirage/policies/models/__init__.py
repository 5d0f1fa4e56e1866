"""Trained models: their artefact, what they are shown and answer, and the policy that serves
one.
"""
