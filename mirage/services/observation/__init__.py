"""Show trained models and the twin the live cluster as they were trained to see it."""
