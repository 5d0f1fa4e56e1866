"""The models that come with Mirage: small, whole, and made for this program's features."""

from pathlib import Path

import pytest

from mirage.policies import registry
from mirage.shipped_files import get_data_dir

MODELS = get_data_dir("models")
SHIPPED = registry.list_model_folders(MODELS)
EACH, TOGETHER = 5_000_000, 30_000_000


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_there_are_some_and_they_are_small() -> None:
    assert SHIPPED
    assert size(MODELS) < TOGETHER


@pytest.mark.parametrize("folder", SHIPPED, ids=registry.format_model_name)
def test_each_is_small_and_can_be_used(folder: Path) -> None:
    assert size(folder) < EACH
    served = registry.load_model(registry.format_model_name(folder), MODELS)
    judged = served.artefact.card["metrics"]["policies"]
    cost_h = {name: told["all"]["cost_h"] for name, told in judged.items()}
    assert cost_h[served.artefact.card["family"]] < cost_h["reactive"]


@pytest.mark.parametrize("folder", SHIPPED, ids=registry.format_model_name)
def test_each_has_its_place_in_the_list(folder: Path) -> None:
    assert f"`{folder.parent.name}/{folder.name}`" in (MODELS / "README.md").read_text()
