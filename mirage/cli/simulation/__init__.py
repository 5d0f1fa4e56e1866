"""Commands that run the simulator: simulate, calibrate and demo."""
