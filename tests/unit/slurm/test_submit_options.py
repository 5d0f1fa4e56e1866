"""sbatch's options as slurmrestd is told them; test_rest_submits_real.py holds each against the job
that sbatch makes."""

from typing import Any

import pytest

from mirage.errors import InputError
from mirage.slurm.rest.submit_options import EARLIEST, LATER, convert_options


def triple(number: int, *, infinite: bool = False) -> dict[str, Any]:
    return {"set": True, "infinite": infinite, "number": number}


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"gres": "gpu:2"}, {"tres_per_node": "gres/gpu:2"}),
        ({"gres": "gpu:a100:2,nvme:1"}, {"tres_per_node": "gres/gpu:a100:2,gres/nvme:1"}),
        ({"gres": "NONE"}, {"tres_per_node": ""}),
        ({"gpus": "4"}, {"tres_per_job": "gres/gpu:4"}),
        (
            {"gpus-per-node": "a100:2", "gres": "nvme:1"},
            {"tres_per_node": "gres/gpu:a100:2,gres/nvme:1"},
        ),
        ({"mem": "1G"}, {"memory_per_node": triple(1024)}),
        ({"mem-per-cpu": "3000K"}, {"memory_per_cpu": triple(3)}),
        ({"mem-per-gpu": "2G"}, {"memory_per_tres": "gres/gpu:2048"}),
        ({"time": "1:01"}, {"time_limit": triple(2)}),
        ({"time": "UNLIMITED"}, {"time_limit": triple(0, infinite=True)}),
        ({"time": "0"}, {"time_limit": triple(0, infinite=True)}),
        ({"time": "00:00:00"}, {"time_limit": triple(0, infinite=True)}),
        ({"gres": "gres:gpu:2,gres:nvme"}, {"tres_per_node": "gres/gpu:2,gres/nvme"}),
        ({"time-min": "10"}, {"time_minimum": triple(10)}),
        ({"exclusive": ""}, {"shared": ["none"]}),
        ({"exclusive": "user"}, {"shared": ["user"]}),
        ({"exclusive": "", "oversubscribe": ""}, {"shared": ["oversubscribe"]}),
        (
            {"nodelist": "gpu[01-02]"},
            {"required_nodes": ["gpu[01-02]"], "minimum_nodes": 2},
        ),
        ({"exclude": "gpu[01-02]"}, {"excluded_nodes": ["gpu[01-02]"]}),
        ({"requeue": "yes"}, {"requeue": True}),
        ({"requeue": "no"}, {"requeue": False}),
        ({"nice": ""}, {"nice": 100}),
        ({"nice": "-5"}, {"nice": -5}),
        ({"mail-type": "end,Fail"}, {"mail_type": ["END", "FAIL"]}),
        ({"mail-type": "TIME_LIMIT_80"}, {"mail_type": ["TIME=80%"]}),
        ({"mail-type": "NONE"}, {"mail_type": []}),
        (
            {"signal": "B:USR1@90"},
            {
                "kill_warning_signal": "USR1",
                "kill_warning_delay": triple(90),
                "kill_warning_flags": ["BATCH_JOB"],
            },
        ),
        ({"signal": "10"}, {"kill_warning_signal": "10", "kill_warning_delay": triple(60)}),
    ],
)
def test_options_become_fields_of_a_job(options: dict[str, str], fields: dict[str, Any]) -> None:
    assert convert_options(options, LATER) == fields


@pytest.mark.parametrize(
    "options",
    [
        {"gres": "gpu:2,"},
        {"mem": "much"},
        {"time": "soon"},
        {"signal": "B:"},
        {"mail-type": "SOMETIMES"},
        {"exclusive": "maybe"},
        {"nodelist": "gpu[01"},
        {"nodelist": "/home/alice/nodes"},
        {"exclude": "./nodes"},
        {"open-mode": "truncate"},
        {"ntasks": "many"},
        {"hint": "nomultithread"},
        {"something-new": "1"},
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="sbatch's --"):
        convert_options(options, LATER)


def test_the_earliest_version_is_told_nothing_that_it_makes_another_job_of() -> None:
    assert convert_options({"ntasks-per-node": "1"}, EARLIEST) == {"tasks_per_node": 1}
    others: list[dict[str, str]] = [{"ntasks-per-node": "2"}, {"requeue": "yes"}, {"time": "0"}]
    for option in [*others, {"signal": "B:USR1"}, {"nodelist": "./nodes"}]:
        with pytest.raises(InputError):
            convert_options(option, EARLIEST)
