"""Mode `submit` on a real Slurm, where the service submits by itself: through slurmrestd with a token
of the owner's, and through one rule of sudo. In real time, for which the links' time-outs are made.
"""

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import rest_host
from tests.cluster.rest_host import RestHost
from tests.fixtures_slurm import testbed_with
from tests.handover.scene import Scene
from tests.slurm_testbed import REPOSITORY, TestbedSettings

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]

_REAL_TIME = testbed_with(TestbedSettings())
_EACH_SECOND = "[polling]\nqueue_s = 1\nnodes_s = 5\n"
_SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:4 --cpus-per-task=2 --mem=100M --signal=B:USR1@60 --nice=7 --mail-type=NONE
echo "start $MIRAGE_CHAIN_ID $MIRAGE_LINK $SLURM_JOB_ID $(date +%s)" >> "$1"
env -0 >"$1.env.$MIRAGE_LINK"
{ umask; pwd; printf '%s\\n' "$@"; } >"$1.seen.$MIRAGE_LINK"
until [ -e "$1.$MIRAGE_LINK" ]; do sleep 0.2; done
echo "end $MIRAGE_CHAIN_ID $MIRAGE_LINK $SLURM_JOB_ID $(date +%s)" >> "$1"
"""
OPTIONS = (
    *("--mirage-mode=submit", "-J", "a name; $(id)", "--comment=my words", "-N", "1-2"),
    *("--ntasks-per-node=1", "--no-requeue", "--time-min=20", "-t", "40"),
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
    """What the user's script saw: environment; umask, directory and arguments."""
    entries = Path(f"{scene.log('a')}.env.{link}").read_text().split("\0")[:-1]
    environment = dict(entry.split("=", 1) for entry in entries)
    return environment, Path(f"{scene.log('a')}.seen.{link}").read_text()


def differences(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


@_REAL_TIME
def test_explore(scene: Scene) -> None:
    with by_rest(scene) as host:
        submit(scene, 5, MARK="a b\nc", SBATCH_QOS="normal")
        await_links(scene, 1)
        try:
            await_links(scene, 1, 2)
        finally:
            print(scene.service_log()[-3000:])
            print(scene.audit())
        scene.testbed.wait_until(lambda: Path(f"{scene.log('a')}.seen.2").exists(), 10)
        print(seen(scene, 1)[1], seen(scene, 2)[1])
        e1, e2 = seen(scene, 1)[0], seen(scene, 2)[0]
        for n in sorted(differences(e1, e2)):
            print("ENV", n, repr(e1.get(n)), repr(e2.get(n)))
        j1, j2 = (scene.testbed.job(r.job_id) for r in scene.ran("a"))
        for n in sorted(differences(j1, j2)):
            print("JOB", n, repr(j1.get(n)), repr(j2.get(n)))
        print(j1)
        assert 0
