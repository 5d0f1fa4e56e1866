"""How commands talk to the terminal: progress bars, the console, signals and the compile notice."""
