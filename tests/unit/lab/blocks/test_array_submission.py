"""What arrays ask for, and what sbatch's words mean."""

import pytest

from mirage.config.settings import SlurmSettings
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.lab.blocks.array_submission import TooManyTasks, build_parameters, classify_refusal


def test_an_array_asks_for_what_is_set_and_leaves_the_rest_to_slurm() -> None:
    settings = SlurmSettings(partition="gpu", time_limit_h=0.5, memory_gib=1.5, at_once=7)
    asked = build_parameters(settings, "mirage-blocks:ab", gpus=2)
    assert asked["comment"] == "mirage-blocks:ab"
    assert (asked["time"], asked["mem"], asked["array_parallelism"]) == (30, "1536M", 7)
    assert (asked["partition"], asked["gpus_per_node"]) == ("gpu", 2)
    assert not {"account", "qos"} & asked.keys()
    assert "gpus_per_node" not in build_parameters(SlurmSettings(), "c", gpus=0)


FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        (f"{FAILED}Socket timed out on send/recv operation", ClusterUnavailable),
        (f"{FAILED}Unable to contact slurm controller (connect failure)", ClusterUnavailable),
        (f"{FAILED}Resource temporarily unavailable", ClusterUnavailable),
        ("", ClusterUnavailable),
        (f"{FAILED}Invalid job array specification", TooManyTasks),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}Job violates", TooManyTasks),
        (f"{FAILED}Invalid account or account/partition combination specified", ClusterRefused),
        (
            f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
            ClusterRefused,
        ),
    ],
)
def test_no_answer_too_many_and_no_are_told_apart(stderr: str, kind: type[Exception]) -> None:
    error = classify_refusal(stderr)
    assert type(error) is kind
    assert "\n" not in str(error)
