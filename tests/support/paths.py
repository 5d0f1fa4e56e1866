"""Places that tests read from, by name: no test counts its own distance from the root."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DATA = CHECKOUT / "tests" / "data"
DEPLOY = CHECKOUT / "deploy"
DOCS = CHECKOUT / "docs"
MIGRATIONS = CHECKOUT / "migrations"
MODELS = CHECKOUT / "models"
PLUGIN = CHECKOUT / "slurm_plugin"
SHARED = CHECKOUT.parent / "shared"
"""Real traces, cluster files and reference texts: beside the checkout where there are any."""
SUPPORT = CHECKOUT / "tests" / "support"
"""Programs that tests start lie here, beside what they share."""
