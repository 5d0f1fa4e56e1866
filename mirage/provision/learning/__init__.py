"""Carries out what becomes of the models of the site: proposed, promoted, declined, taken back."""
