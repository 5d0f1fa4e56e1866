"""A training that was interrupted goes on, and comes to what it would have come to."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mirage.lab.training.agents import agent_training
from mirage.lab.training.agents.checkpoints import Stage, TrainingCheckpoints
from tests.support.training.agents_trained import BRIEF, plan, runs


def interrupting(after: int) -> Callable[[], None]:
    left = iter(range(after))

    def told() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return told


@pytest.mark.parametrize("family", ["dqn", "policy-gradient"])
def test_the_same_network_comes_out(family: str, tmp_path: Path) -> None:
    made = plan(family, "mlp", changes=BRIEF)
    whole = agent_training.fit_agent(runs(), made, TrainingCheckpoints(tmp_path / "whole"), "all")
    cut = TrainingCheckpoints(tmp_path / "cut", on_stage=interrupting(2))
    with pytest.raises(KeyboardInterrupt):
        agent_training.fit_agent(runs(), made, cut, "all")
    assert len(cut) == 3
    again = agent_training.fit_agent(runs(), made, TrainingCheckpoints(tmp_path / "cut"), "all")
    assert again.facts == whole.facts
    for name, array in agent_training.dump_weights(whole.net).items():
        np.testing.assert_array_equal(agent_training.dump_weights(again.net)[name], array)


def test_what_was_kept_is_not_made_again(tmp_path: Path) -> None:
    stages = TrainingCheckpoints(tmp_path / "kept")
    made: list[int] = []

    def stage() -> Stage:
        made.append(len(made))
        return {"a": np.ones(2, dtype=np.float32)}, {"turn": len(made)}

    assert (
        stages.load_or_make("one", stage)[1] == stages.load_or_make("one", stage)[1] == {"turn": 1}
    )
    assert stages.load_or_make("two", stage)[1] == {"turn": 2}
    assert (len(made), len(stages)) == (2, 2)
    stages.delete_folder()
    assert len(stages) == 0
    assert not (tmp_path / "kept").exists()


def test_another_command_has_another_folder(tmp_path: Path) -> None:
    one, same, other = (
        TrainingCheckpoints.open_beside(tmp_path / "1", {"seed": s}) for s in (0, 0, 1)
    )
    assert one.folder == same.folder != other.folder
    assert one.folder.name.startswith(".1.")
