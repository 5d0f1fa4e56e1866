"""A model that is loaded as the service loads it, from the fixture `folder` of the test's file."""

from pathlib import Path

import pytest

from mirage.policies.models.artefact import Artefact
from mirage.policies.models.model_policy import ModelPolicy


@pytest.fixture
def served(folder: Path) -> ModelPolicy:
    return ModelPolicy(Artefact.load(folder), "models/made/1")
