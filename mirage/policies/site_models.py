"""Names the models that a site has learned from its own history: models/site-CLUSTER/VERSION."""

import re
from pathlib import Path

from mirage.errors import InputError
from mirage.policies import registry
from mirage.policies.models.artefact import CARD


def format_site_name(cluster: str) -> str:
    """Return the name of a cluster's own models: a folder, so odd characters become `-`."""
    return f"{registry.SITE}{re.sub(r'[^A-Za-z0-9._-]', '-', cluster)}"


def find_champion(cluster: str, under: Path) -> str | None:
    """Return the promoted model of the cluster's own; None if there is none, or if its files are
    gone."""
    name = format_site_name(cluster)
    version = registry.find_promoted_version(under / name)
    if version is None or not (under / name / version / CARD).is_file():
        return None
    return f"{registry.MODELS}/{name}/{version}"


def explain_damage(model: str, under: Path) -> str:
    """Explain why the model in use cannot be loaded, and what to do; empty: it can be."""
    try:
        registry.load_model(model, under)
    except InputError as error:
        return (
            f"{model} is in use, but decides nothing: {error}. Restore its files, or take it back "
            "on the page Admin"
        )
    return ""
