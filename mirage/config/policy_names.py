"""The names of the policies that need no model, for settings and shell completion.

`policies.registry` has the policies themselves. Importing it takes a second, which is too long for
both uses.
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
"""The names in the order of `policies.registry.NAMES`. A test compares the two."""
