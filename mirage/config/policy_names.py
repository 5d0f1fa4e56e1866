"""The names of the policies that need no model, for settings and shell completion.

`policy.registry` has the policies; importing it takes a second, which neither may cost.
"""

POLICY_NAMES = (
    "reactive",
    "average",
    "quantile",
    "slurm-estimate",
    "fixed-lead",
    "at-once",
    "twin",
    "pin",
    "pin-then-free",
    "auto",
)
"""`policy.registry.NAMES` in its order; a test compares the two."""
