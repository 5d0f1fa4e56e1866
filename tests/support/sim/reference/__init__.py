"""A brute-force simulator, written from docs/simulator.md alone: obvious rather than fast."""
