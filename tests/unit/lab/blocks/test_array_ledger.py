"""Which blocks wait or run, and how often each was tried, by what was noted before."""

from pathlib import Path

import pytest

from mirage.lab.blocks.array_ledger import UNSURE_S, ArrayLedger
from mirage.slurm.commands.array_queue import QueuedTask


@pytest.fixture
def ledger(tmp_path: Path) -> ArrayLedger:
    return ArrayLedger(tmp_path / "arrays.json")


def test_a_new_command_reads_what_the_one_before_noted(ledger: ArrayLedger) -> None:
    submission = ledger.begin(["a", "b"], 100.0)
    assert ArrayLedger.load(ledger.path).submissions == [submission]
    ledger.settle(submission, 7)
    assert ArrayLedger.load(ledger.path).submissions == [submission]
    assert submission.array == 7


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"comment": "c"}]', '[{"blocks": []}]'])
def test_a_ledger_that_does_not_read_is_as_good_as_none(ledger: ArrayLedger, text: str) -> None:
    ledger.path.write_text(text)
    assert ArrayLedger.load(ledger.path).submissions == []


def test_a_block_is_live_if_its_task_of_its_array_is_in_the_queue(ledger: ArrayLedger) -> None:
    mine, other = (ledger.begin(blocks, 0.0).comment for blocks in (["a", "b"], ["c"]))
    rows = [
        QueuedTask(7, 1, "None", mine),
        QueuedTask(7, 2, "None", mine),  # no task of ours
        QueuedTask(8, 0, "None", "somebody else's"),
    ]
    assert ledger.find_live(rows) == {"b": rows[0]}
    assert ledger.find_live([QueuedTask(9, 0, "None", other)]).keys() == {"c"}


def test_an_array_without_an_answer_is_known_by_its_comment(ledger: ArrayLedger) -> None:
    submission = ledger.begin(["a"], 0.0)
    assert ledger.find_arrived([QueuedTask(7, 0, "None", "another")]) == []
    task = QueuedTask(8, 0, "None", submission.comment)
    assert ledger.find_arrived([task]) == [(submission, 8)]
    ledger.settle(submission, 8)
    assert ledger.find_arrived([task]) == []


def test_a_block_waits_a_while_for_an_array_that_may_still_appear(ledger: ArrayLedger) -> None:
    submission = ledger.begin(["a"], 1000.0)
    assert ledger.list_unsure(1000.0 + UNSURE_S - 1) == {"a"}
    assert ledger.list_unsure(1000.0 + UNSURE_S) == set()
    ledger.settle(submission, 7)
    assert ledger.list_unsure(1000.0) == set()


def test_only_arrays_that_reached_slurm_count_as_tries(ledger: ArrayLedger) -> None:
    ledger.settle(ledger.begin(["a", "b"], 0.0), 7)
    ledger.begin(["a"], 0.0)
    refused = ledger.begin(["a"], 0.0)
    ledger.withdraw(refused)
    assert (ledger.count_tries("a"), ledger.count_tries("b")) == (1, 1)
    assert ledger.find_last_task("a") == "7_0"
    assert ArrayLedger.load(ledger.path).count_tries("a") == 0, "a new command tries as often"
