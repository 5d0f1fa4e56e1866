"""A job that slurmrestd is told of is the job that sbatch makes of the same options, whatever the
version that is spoken."""

import os
from collections.abc import Iterator

import pytest

from mirage.cluster.rest.client import Slurmrestd
from mirage.domain.submission import Submission
from mirage.errors import ClusterRefused, InputError
from mirage.slurm.rest import submit_options
from tests.support.cluster.rest_host import RestHost, only, started
from tests.support.cluster.slurm_rig import SlurmRig

pytestmark = pytest.mark.slurm

VALUES: dict[str, tuple[str, ...]] = {
    "job-name": ("another",),
    "partition": ("long",),
    "account": ("research",),
    "qos": ("normal",),
    "nodes": ("2", "1-2"),
    "ntasks": ("3",),
    "ntasks-per-node": ("1", "2"),
    "cpus-per-task": ("2",),
    "output": ("out-%j",),
    "error": ("err-%j",),
    "input": ("in",),
    "constraint": ("a100",),
    "licenses": ("matlab:2",),
    "reservation": ("nobodys",),
    "mail-user": ("alice@example.org",),
    "nice": ("7", ""),
    "time": ("1:01", "2:00:00"),
    "time-min": ("3",),
    "gres": ("gpu:2", "none"),
    "gpus": ("2",),
    "gpus-per-node": ("2",),
    "gpus-per-socket": ("1",),
    "exclusive": ("", "user"),
    "oversubscribe": ("",),
    "mem": ("1G", "0", "3000K"),
    "mem-per-cpu": ("100M",),
    "mem-per-gpu": ("1G",),
    "cpus-per-gpu": ("2",),
    "ntasks-per-socket": ("1",),
    "ntasks-per-core": ("1",),
    "threads-per-core": ("1",),
    "mincpus": ("2",),
    "tmp": ("5",),
    "nodelist": ("gpu01", "gpu[01-02]"),
    "exclude": ("gpu01",),
    "contiguous": ("",),
    "requeue": ("", "no"),
    "signal": ("USR1", "B:USR1@90", "10@5"),
    "wckey": ("a-key",),
    "prefer": ("a100",),
    "network": ("sn_all",),
    "mail-type": ("END,FAIL", "ALL", "TIME_LIMIT_90", "NONE"),
    "open-mode": ("append",),
}
BESIDE = {"mem-per-gpu": {"gpus": "2"}}
"""What an option is not taken without."""
OF_ONE_JOB = {
    *("JobId", "SubmitTime", "Command", "SubmitLine", "BatchHost", "AccrueTime", "LastSchedEval"),
    *("StdOut", "StdErr", "AllocNode:Sid", "Scheduler", "SLUID", "Reason"),
}
UNTIL_IT_STARTS = {"nodes": {"NumCPUs", "TRES"}}
"""What v0.0.38 tells otherwise of a job that waits: it counts the CPUs of one node."""

LEFT_TO_THE_LINK = {("ntasks-per-node", "2")}
"""What v0.0.38 would make another job of: Mirage does not submit it there."""


class Scene:
    """Jobs of alice's behind one that runs: nothing starts."""

    def __init__(self, rig: SlurmRig) -> None:
        self.testbed, self.behind = rig.testbed, f"afterany:{rig.predecessor}"
        self._made: dict[str, dict[str, str] | None] = {}

    def by_sbatch(self, options: dict[str, str]) -> dict[str, str] | None:
        """The job as scontrol shows it; None where sbatch refuses. One for all versions."""
        words = [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
        words = ["--no-requeue" if word == "--requeue=no" else word for word in words]
        if str(words) not in self._made:
            argv = ["sbatch", "--parsable", f"--dependency={self.behind}", *words]
            argv += ["--open-mode=append", "--wrap", "sleep 1"]
            done = self.testbed.run(argv, user="alice", check=False)
            found = self.testbed.job(int(done.stdout)) if done.returncode == 0 else None
            self._made[str(words)] = found
        return self._made[str(words)]


NOT_BY_REST = {"OOMKillStep"}
"""slurmrestd of 24.11 says 0 where sbatch says nothing, and half of the versions cannot be told."""


@pytest.fixture
def scene(slurm_rig: SlurmRig) -> Scene:
    return Scene(slurm_rig)


def test_every_option_that_is_told_is_tried() -> None:
    assert set(VALUES) == set(submit_options.LATER) | set(submit_options.EARLIEST)


def test_the_jobs_are_those_of_sbatch(scene: Scene, rest_host: RestHost) -> None:
    wrong: list[object] = []
    for version in rest_host.versions():
        with started(scene.testbed, *only(scene.testbed, version)) as host:
            cluster = host.cluster()
            assert cluster.get_dialect().version == version
            table = (
                submit_options.LATER
                if cluster.get_dialect().has_triples
                else submit_options.EARLIEST
            )
            for name, value in _tried(table):
                wrong += _differences(scene, cluster, name, value)
    assert not wrong, "\n".join(map(str, wrong))


def _tried(table: object) -> Iterator[tuple[str, str]]:
    for name, values in VALUES.items():
        if name in table:  # type: ignore[operator]
            yield from ((name, value) for value in values)


def _differences(scene: Scene, cluster: Slurmrestd, name: str, value: str) -> list[object]:
    """Of the two jobs; where sbatch makes none, slurmrestd makes none."""
    fixed = {"job-name": "the same", "partition": "gpu", "time": "10", **BESIDE.get(name, {})}
    options = {**fixed, name: value}
    by_sbatch = scene.by_sbatch(options)
    by_rest = _by_rest(scene, cluster, options)
    if not cluster.get_dialect().has_triples and (name, value) in LEFT_TO_THE_LINK:
        assert by_rest is None
        return []
    if by_sbatch is None or by_rest is None:
        return (
            []
            if by_sbatch == by_rest
            else [(cluster.get_dialect().version, name, value, by_sbatch)]
        )
    keys = (by_sbatch.keys() | by_rest.keys()) - OF_ONE_JOB - NOT_BY_REST
    found = {k: (by_sbatch.get(k), by_rest.get(k)) for k in keys}
    other = {k: pair for k, pair in found.items() if pair[0] != pair[1]}
    if not cluster.get_dialect().has_triples and set(other) <= UNTIL_IT_STARTS.get(name, set()):
        return []
    return [(cluster.get_dialect().version, name, value, other)] if other else []


def _by_rest(scene: Scene, cluster: Slurmrestd, options: dict[str, str]) -> dict[str, str] | None:
    job = Submission(
        script="#!/bin/sh\nsleep 1\n",
        environment={"PATH": os.environ["PATH"]},
        directory="/home/alice",
        name="the same",
        comment="",
        dependency=scene.behind,
        options=options,
    )
    try:
        return scene.testbed.job(cluster.submit_job(job, user="alice"))
    except (InputError, ClusterRefused):
        return None
