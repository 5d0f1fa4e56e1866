"""The wrapped sbatch: what no link of a chain needs once it runs, and what nobody imports but it."""
