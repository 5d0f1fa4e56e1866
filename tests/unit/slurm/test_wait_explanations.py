"""Every pending reason has plain words, and few enough words to be counted by."""

import pytest

from mirage.slurm.text.pending_reasons import KNOWN_HINDRANCES, Hindrance
from mirage.slurm.text.wait_explanations import LONGEST, QUEUE, classify_reason, explain_reason


@pytest.mark.parametrize(
    ("reason", "counted_as"),
    [
        ("Priority", "Priority"),
        ("(Resources)", "Resources"),
        ("", "None"),
        ("(null)", "None"),
        ("ReqNodeNotAvail, May be reserved for other job", "Reserved"),
        ("ReqNodeNotAvail,_UnavailableNodes:gpu03", "ReqNodeNotAvail"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
            "partitions",
            "Reserved",
        ),
        ("launch failed requeued held", "JobLaunchFailure"),
        ("RaisedSignal:9(Killed)", "RaisedSignal"),
        ("RaisedSignal:15(Terminated)", "RaisedSignal"),
        ("Required nodes lack available resources", "Resources"),
        ("Required nodes do not fit topology", "Resources"),
        ("No suitable topology unit found", "Resources"),
        ("No_suitable_topology_unit_found_for_segment", "Resources"),
        ("Insufficient resources in topology unit", "Resources"),
        (
            "Weight-based selection could not satisfy request within topology unit",
            "Resources",
        ),
        ("Exceeded maximum node limit during topology allocation", "Resources"),
        ("No available nodes in topology", "Resources"),
        ("QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit"),
        ("x" * 500, "x" * LONGEST),
    ],
)
def test_reasons_are_counted_by_one_word(reason: str, counted_as: str) -> None:
    assert classify_reason(reason) == counted_as


@pytest.mark.parametrize(
    "reason",
    [
        *("Priority", "Resources", "Dependency", "Reserved", "None"),
        *("Constraints", "MaxPoweredUpNodes", "MpiPortsBusy", "NvidiaImexChannels", "SchedDefer"),
        *("FedJobLock", "BurstBufferResources", "PowerNotAvail", "PowerReserved"),
        *("NonZeroExitCode", "RaisedSignal", "TimeLimit", "InactiveLimit", "OutOfMemory"),
    ],
)
def test_ordinary_waits_have_words_and_time_cures_them(reason: str) -> None:
    told = explain_reason(reason)
    assert told.cure == QUEUE
    assert told.says
    assert not told.says.endswith(".")


@pytest.mark.parametrize("found", KNOWN_HINDRANCES, ids=lambda found: found.word)
def test_hindrances_say_what_to_do(found: Hindrance) -> None:
    told = explain_reason(found.word)
    assert (told.cure, told.says, told.advice) == (found.cure, found.says, found.advice)


def test_an_unknown_word_is_told_as_it_is() -> None:
    told = explain_reason("SomethingNew")
    assert (told.word, told.says, told.cure) == ("SomethingNew", "", QUEUE)
