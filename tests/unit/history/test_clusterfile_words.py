"""Settings of a cluster file that are words or -1, where others are numbers."""

import pytest

from mirage.errors import ConfigError
from mirage.history.cluster_files.reader import parse_cluster_file
from mirage.simulator.types import OFF

LEAST = "[cluster]\nname = 'lab'\nnodes = 8\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "[scheduler]\nbf_interval = -2\n",
            "[scheduler] bf_interval = -2: must be a whole number, at least 1, or -1 for off",
        ),
        (
            "[[qos]]\nName = 'q'\nFlags = 'PartitionTimeLimit,DenyOnLimit'\n",
            "[[qos]] 1 Flags = 'PartitionTimeLimit,DenyOnLimit': not simulated: DenyOnLimit; "
            "only PartitionTimeLimit is",
        ),
    ],
)
def test_what_is_not_simulated_is_a_fault(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_cluster_file(LEAST + text, "C.toml")
    assert fault in str(raised.value)


def test_schedulers_that_are_off_and_a_flag_in_any_case() -> None:
    text = "[scheduler]\nSched_Interval = -1\n[[qos]]\nName = 'q'\nFlags = 'partitiontimelimit'\n"
    params = parse_cluster_file(LEAST + text, "C.toml").params
    assert params.sched_interval_s == OFF
    assert params.qos[0].overrides_max_time
