"""The pinned requirements are what pyproject.toml names, in exact versions with hashes."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import CHECKOUT

PINS = CHECKOUT / "requirements"
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
SERVING = [*PROJECT["project"]["dependencies"], *EXTRAS["postgres"], *EXTRAS["jwt"]]
BUILDING = PROJECT["dependency-groups"]["build"]
WANTED = {
    "serve": [*SERVING, *BUILDING],
    "learn": [*SERVING, *BUILDING, *EXTRAS["trees"]],
    "test": [*SERVING, *BUILDING, *EXTRAS["test"]],
    "dev": [*SERVING, *BUILDING, *(text for texts in EXTRAS.values() for text in texts)],
}
ONE = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?P<marker> ;.*)? \\\n", re.MULTILINE)
APART = {"torch", "mirage-provisioner", "mirage-slurm"}


def pins(name: str) -> dict[str, str]:
    found = ONE.finditer((PINS / f"{name}.txt").read_text())
    return {canonicalize_name(one["name"]): one["version"] for one in found}


@pytest.mark.parametrize("name", WANTED)
def test_what_the_project_names_is_pinned_in_a_version_that_it_admits(name: str) -> None:
    pinned = pins(name)
    for wanted in map(Requirement, WANTED[name]):
        key = canonicalize_name(wanted.name)
        if key not in APART:
            assert key in pinned, "make requirements"
            assert wanted.specifier.contains(pinned[key]), "make requirements"


@pytest.mark.parametrize("name", WANTED)
def test_each_release_has_hashes_and_nothing_has_an_address(name: str) -> None:
    text = (PINS / f"{name}.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=sha256:[0-9a-f]{64}\b)", text, re.MULTILINE)
    first, *releases = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
    assert first.startswith("#")
    assert [one.partition("\n")[0] for one in releases if "--hash=sha256:" not in one] == []
    assert len(releases) == len(pins(name))


@pytest.mark.parametrize("name", ["serve", "learn", "test"])
def test_the_smaller_sets_are_parts_of_the_largest(name: str) -> None:
    assert pins(name).items() <= pins("dev").items()


def test_torch_stands_apart() -> None:
    """Each machine takes its own build of it, which has another hash."""
    assert "torch" not in pins("dev")
    (version,) = re.findall(r"^torch==(\S+)$", (PINS / "torch.txt").read_text(), re.MULTILINE)
    (wanted,) = [text for text in EXTRAS["train"] if Requirement(text).name == "torch"]
    assert Requirement(wanted).specifier.contains(version)
