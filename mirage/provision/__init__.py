"""Decide every open hand-over of a tick, record the decision, and carry it out in Slurm."""
