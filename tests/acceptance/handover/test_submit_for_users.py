"""Mode `submit` on a real Slurm, where the service submits: through slurmrestd with a token of the
owner's, and through one rule of sudo. In real time, for which the links' time-outs are made.
"""

import pwd
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import rest_host
from tests.support.cluster.rest_host import RestHost
from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.paths import CHECKOUT
from tests.support.slurm_testbed import OF_ONE_JOB, TestbedSettings

pytestmark = pytest.mark.slurm

_REAL_TIME = testbed_with(TestbedSettings())
_EACH_SECOND = "[polling]\nqueue_s = 1\nnodes_s = 5\n"
_SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:4 --cpus-per-task=2 --mem=100M --nice=7 --mail-type=FAIL
env -0 >"$1.env.$MIRAGE_LINK"
{ umask; pwd; printf '%s\\n' "$@"; } >"$1.seen.$MIRAGE_LINK"
echo "start $MIRAGE_CHAIN_ID $MIRAGE_LINK $SLURM_JOB_ID $(date +%s)" >> "$1"
until [ -e "$1.$MIRAGE_LINK" ]; do sleep 0.2; done
echo "end $MIRAGE_CHAIN_ID $MIRAGE_LINK $SLURM_JOB_ID $(date +%s)" >> "$1"
"""
OPTIONS = (
    *("--mirage-mode=submit", "-J", "a name; $(id)", "--comment=my words", "-N", "1-2"),
    *("--ntasks-per-node=1", "-t", "40"),
)

OF_EACH_LINK = {
    *("MIRAGE_LINK", "MIRAGE_PREV_JOBID", "MIRAGE_PREV_STATE", "MIRAGE_RESUME", "MIRAGE_DEADLINE"),
    *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_TASK_PID", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"),
    *(
        "GPU_DEVICE_ORDINAL",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "SLURM_OPEN_MODE",
        "TMPDIR",
    ),
    *("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR", "_"),
    *OF_ONE_JOB,
}
NOT_BY_REST = {"SLURM_SUBMIT_HOST", "SLURM_PRIO_PROCESS"}
# The host and the nice value of the process that submitted: a request has neither.
ASKED_FOR = (
    *(
        "JobName",
        "UserId",
        "GroupId",
        "Nice",
        "Account",
        "QOS",
        "TimeLimit",
        "Partition",
        "Requeue",
    ),
    *("NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "NtasksPerN:B:S:C", "MinCPUsNode"),
    *("MinMemoryNode", "OverSubscribe", "WorkDir", "StdErr", "StdIn", "StdOut", "TresPerNode"),
    *("TRES", "ReqTRES", "Exclusive"),  # by release
    *("MailUser", "MailType", "ReqNodeList", "Features", "Licenses", "Priority", "Dependency"),
)


@contextmanager
def by_rest(scene: Scene) -> Iterator[RestHost]:
    """A service that reaches Slurm through slurmrestd, with the site's helper for users' tokens."""
    home = scene.root / "mirage"
    with rest_host.started(scene.testbed) as host:
        own, tokens = home / "own.jwt", home / "tokens"
        own.touch(mode=0o600)
        own.write_text(host.token("mirage").text)
        tokens.mkdir(mode=0o700)
        (tokens / "alice").write_text(host.token("alice", 600).text)
        helper = home / "token-of"
        helper.write_text(f'#!/bin/sh\nexec cat "{tokens}/$1"\n')
        helper.chmod(0o700)
        for path in (own, tokens, tokens / "alice", helper):
            shutil.chown(path, "mirage")
        cluster = (
            f'transport = "rest"\nrest_url = "{host.socket}"\nrest_token_file = "{own}"\n'
            f'rest_token_command = ["{helper}"]\n'
        )
        scene.start_service(policy="at-once", more=_EACH_SECOND, cluster=cluster)
        yield host


def submit(scene: Scene, links: int, *options: str, **env: str) -> None:
    (scene.root / "train.sh").write_text(_SCRIPT)
    scene.submit_chain(
        "a", links=links, run_s=None, limit_min=30, options=options or OPTIONS, env=env
    )


def await_links(scene: Scene, *links: int) -> None:
    """Until these have begun, and no others."""
    scene.testbed.wait_until(
        lambda: [run.link for run in scene.ran("a")] == list(links), 40, f"links {links}"
    )


def seen(scene: Scene, link: int) -> tuple[dict[str, str], str]:
    """What the user's script saw: environment; umask, directory and arguments. It is written down
    before the script says that it has begun."""
    entries = Path(f"{scene.log('a')}.env.{link}").read_text().split("\0")[:-1]
    environment = dict(entry.split("=", 1) for entry in entries)
    return environment, Path(f"{scene.log('a')}.seen.{link}").read_text()


def differences(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def awaited(scene: Scene, event: str, link: int) -> None:
    """Until the audit tells that of the link."""
    scene.testbed.wait_until(
        lambda: any(e == event and d.get("link") == link for e, _, d in scene.audit()), 40, event
    )


def kept_recipes(scene: Scene) -> int:
    with closing(sqlite3.connect(scene.root / "mirage" / "mirage.db")) as db:
        return int(db.execute("SELECT count(*) FROM recipes").fetchone()[0])


@_REAL_TIME
def test_links_are_submitted_as_their_owner_through_slurmrestd(scene: Scene) -> None:
    with by_rest(scene) as host:
        submit(scene, 5, MARK="a b\nc", SBATCH_QOS="normal")
        await_links(scene, 1, 2)
        scene.let_end("a", 1)
        await_links(scene, 1, 2, 3)
        awaited(scene, "submit: done", 3)
        first, *others = (scene.testbed.job(run.job_id) for run in scene.ran("a"))
        for job in others:
            assert {n: job.get(n) for n in ASKED_FOR} == {n: first.get(n) for n in ASKED_FOR}
        environment, rest = seen(scene, 1)
        for link in (2, 3):
            assert seen(scene, link)[1] == rest
            assert differences(environment, seen(scene, link)[0]) <= OF_EACH_LINK | NOT_BY_REST
        assert environment["MARK"] == "a b\nc"

        # bob's token is none of alice's: nothing is submitted with it, and the link does it.
        (scene.root / "mirage" / "tokens" / "alice").write_text(host.token("bob", 600).text)
        scene.let_end("a", 2)
        awaited(scene, "submit: refused", 4)
        assert scene.testbed.run(["squeue", "-h", "-u", "bob"]).stdout == ""
        scene.let_end("a", 3)
        await_links(scene, 1, 2, 3, 4)
        carrier = scene.testbed.job(scene.ran("a")[3].job_id)["Command"]
        assert kept_recipes(scene) == 1
    # Without slurmrestd the service knows nothing, and the chain loses nothing.
    scene.let_end("a", 4)
    await_links(scene, 1, 2, 3, 4, 5)
    scene.let_end("a", 5)
    chain_id = scene.ran("a")[0].chain
    said = scene.service_log() + str(scene.api(f"/api/v1/chains/{chain_id}"))
    assert carrier.split()[0] not in said
    assert "ntasks-per-node" not in said
    assert "eyJ" not in said


# nobody only once all is imported: the interpreter may lie where nobody may not read.
_ASKS_SUDO = """
import os
import pwd
from mirage.cluster.cli.command_runner import CommandRunner
from mirage.errors import ClusterUnavailable
nobody = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(nobody.pw_gid)
os.setuid(nobody.pw_uid)
try:
    CommandRunner(timeout_s=0.5).run(["sudo", "-n", "sleep", "40"])
except ClusterUnavailable as error:
    print(error)
"""


def test_what_sudo_runs_too_long_is_not_waited_for() -> None:
    """It is root's, and outlives the sudo that the service ends."""
    include = Path("/etc/sudoers.d/mirage-test")
    include.write_text("nobody ALL=(root) NOPASSWD: ALL\n")
    include.chmod(0o440)
    try:
        asked = [sys.executable, "-c", _ASKS_SUDO]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30)
    finally:
        include.unlink()
    assert done.stdout == "sudo did not answer within 0.5 s and was ended\n"


@_REAL_TIME
def test_links_are_submitted_as_their_owner_through_sudo(scene: Scene) -> None:
    link = scene.root / "slurm_plugin" / "mirage-link"
    rule = (CHECKOUT / "deploy" / "sudoers" / "mirage").read_text()
    rule = rule.replace("/opt/mirage/slurm_plugin/mirage-link", str(link))
    include = Path("/etc/sudoers.d/mirage-test")
    include.write_text(rule.replace("%mirage-users", "%alice"))
    include.chmod(0o440)
    try:
        scene.start_service(policy="at-once", more=f'{_EACH_SECOND}[submit]\nsudo = "{link}"\n')
        home = pwd.getpwnam("alice").pw_dir
        submit(scene, 2, MARK="a b\nc", HOME=home, MIRAGE_STATE_DIR="")
        await_links(scene, 1, 2)
        awaited(scene, "submit: done", 2)
        environment, rest = seen(scene, 1)
        assert seen(scene, 2)[1] == rest
        assert differences(environment, seen(scene, 2)[0]) <= OF_EACH_LINK
    finally:
        include.unlink()
