"""A brute-force simulator, written from docs/reference/simulator.md alone: obvious rather than
fast."""
