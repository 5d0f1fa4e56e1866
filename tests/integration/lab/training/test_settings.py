"""A file changes some hyper-parameters; what it does not know is told."""

from pathlib import Path

import pytest

from mirage.errors import InputError
from mirage.lab.training import settings
from mirage.lab.training.trees.ensemble import create_family as made
from tests.support.training.agents_trained import plan


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[forest]\ntrees = 7\n[offline]\nrate = 1\n")
    changed, kept = settings.load_settings(path), settings.load_defaults()
    assert changed["forest"] == {**kept["forest"], "trees": 7}
    assert changed["offline"]["rate"] == 1
    assert {n: t for n, t in changed.items() if n not in ("forest", "offline")} == {
        n: t for n, t in kept.items() if n not in ("forest", "offline")
    }


@pytest.mark.parametrize("family", ["forest", "xgboost"])
def test_trees_have_the_shipped_settings(family: str) -> None:
    told = made(family, settings.load_defaults(), seed=3).list_settings()
    assert told == {"seed": 3, **settings.load_defaults()[family]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[forest", "is not valid TOML"),
        ("[oak]\ntrees = 7", "no table"),
        ("[forest]\nbranches = 7", "no setting branches"),
        ("[forest]\ntrees = 7.5", "should be a value like 60"),
        ("[forest]\ntrees = -1", "should be a value like 60"),
        ("[forest]\ntrees = true", "should be a value like 60"),
        ("[forest]\ntrees = 0", "must be above 0"),
        ("[forest]\nsample = 9.0", "a share and must be at most 1"),
        ('[policy-gradient]\nalgorithm = 1', "should be a value like 'ppo'"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "my.toml").write_text(text)
    with pytest.raises(InputError, match=why):
        settings.load_settings(tmp_path / "my.toml")


def test_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        settings.load_settings(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("encoder", "changed"),
    [
        ("moe", {"moe": {"asked": 7}}),
        ("transformer", {"transformer": {"part": 5}}),
        ("transformer", {"transformer": {"part": 0}}),
        ("transformer", {"transformer": {"heads": 3}}),
        ("mlp", {"policy-gradient": {"algorithm": "trpo"}}),
        ("mlp", {"offline": {"epochs": 14}}),
        ("mlp", {"offline": {"epochs": 0, "least": 0}}),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    encoder: str, changed: dict[str, dict[str, object]]
) -> None:
    with pytest.raises(InputError):
        plan("policy-gradient", encoder, changes=changed)
