"""Draws charts as SVG: axes, scales and marks, and the charts of each page."""
