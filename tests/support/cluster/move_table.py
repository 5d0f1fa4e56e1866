"""Makes the table of docs/admin/slurmrestd.md: the outcome of each move, by release and transport.

Run `.venv/bin/python -m tests.support.cluster.move_table` as root on each release; it takes a
minute. Rows of other releases stay as they are. No target of `make` does this, as it needs the
releases' roots.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mirage.errors import ClusterRefused, MirageError
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.restd.client import Slurmrestd
from tests.support.cluster.rest_host import build_version_options, running_slurmrestd
from tests.support.cluster.slurm_rig import TWO_NODES, SlurmRig, Stage, get_uid, put_on_path
from tests.support.paths import CHECKOUT
from tests.support.slurm_testbed import Testbed

PAGE = CHECKOUT / "docs" / "admin" / "slurmrestd.md"
BEGIN, END = "<!-- made by tests/support/cluster/move_table.py -->\n", "<!-- end of the table -->\n"
Real = SlurmCli | Slurmrestd
_WRONG = re.compile(r"\b(?:NO|NOT|CUT|STILL|TAKEN|REFUSED)\b")
"""A word in capitals in a cell: the move did not do what it should."""


@dataclass(frozen=True)
class Scene:
    """A running predecessor, a standby behind it, and Slurm as an Operator and as bob."""

    rig: SlurmRig
    operator: Real
    bob: Callable[[Callable[[Real], None]], None]
    """Calls its argument with a client of bob's, who may do nothing to alice's jobs."""

    @property
    def behind(self) -> str:
        return f"afterany:{self.rig.predecessor}"

    def read_field(self, key: str) -> str:
        return self.rig.testbed.job(self.rig.standby)[key]

    def nodes(self) -> str:
        return self.rig.testbed.job(self.rig.predecessor)["NodeList"]


ALICE = "alice"


def pin(scene: Scene) -> str:
    scene.operator.pin_standby(
        scene.rig.standby, owner=get_uid(ALICE), dependency="", node_list=scene.nodes()
    )
    return f"on {scene.read_field('ReqNodeList')}"


def unpin(scene: Scene) -> str:
    scene.operator.set_dependency(
        scene.rig.standby, owner=get_uid(ALICE), dependency=scene.behind, unpin=True
    )
    return f"behind, nodes {scene.read_field('ReqNodeList')}"


def hold_release(scene: Scene) -> str:
    words = []
    for move in (scene.operator.hold_job, scene.operator.release_job):
        move(scene.rig.standby, owner=get_uid(ALICE))
        words.append(scene.read_field("Reason"))
    return ", ".join(words)


def refused_move(scene: Scene) -> str:
    return _try_refused_move(
        scene,
        lambda bobs: bobs.free_standby(scene.rig.standby, owner=get_uid(ALICE), dependency=""),
    )


def refused_cancel(scene: Scene) -> str:
    return _try_refused_move(
        scene, lambda bobs: bobs.cancel_job(scene.rig.standby, owner=get_uid(ALICE))
    )


def _try_refused_move(scene: Scene, move: Callable[[Real], None]) -> str:
    before = scene.rig.testbed.job(scene.rig.standby)
    try:
        scene.bob(move)
    except ClusterRefused:
        after = scene.rig.testbed.job(scene.rig.standby)
        return "refused" if before["Dependency"] == after["Dependency"] else "REFUSED AND MADE"
    return "TAKEN FOR DONE"


def free(scene: Scene) -> str:
    scene.operator.free_standby(scene.rig.standby, owner=get_uid(ALICE), dependency="")
    return "eligible" if scene.read_field("Dependency") == "(null)" else "STILL BEHIND"


def cancel(scene: Scene) -> str:
    scene.operator.cancel_job(scene.rig.standby, owner=get_uid(ALICE))
    return scene.read_field("JobState").lower()


def fetch_by_id(scene: Scene) -> str:
    ids = [scene.rig.predecessor, scene.rig.standby]
    scene.rig.until(lambda: len(scene.operator.fetch_job_records(ids)) == len(ids), 60)
    return f"{len(scene.operator.fetch_job_records(ids))} of {len(ids)}"


def fetch_history_times(scene: Scene) -> str:
    """Describe the predecessor's record in a window that begins after its start."""
    now = int(time.time())
    records = {job.job_id: job for job in scene.operator.fetch_history(now - 1, now + 1)}
    run = records[scene.rig.predecessor]
    is_whole = run.start is not None and run.start < now - 1 and run.end is None
    return "whole" if is_whole else f"CUT: {run.start}, {run.end}"


MOVES: dict[str, Callable[[Scene], str]] = {
    "pin": pin,
    "unpin and back": unpin,
    "hold, release": hold_release,
    "a stranger's move": refused_move,
    "a stranger's cancel": refused_cancel,
    "jobs by id": fetch_by_id,
    "times of history": fetch_history_times,
    "free": free,
    "cancel": cancel,
}


def main() -> int:
    testbed = Testbed()
    testbed.up(TWO_NODES)
    release = testbed.run(["sinfo", "-V"]).stdout.split()[-1]
    rows = [
        (release, name, *(_describe_outcome(move, scene) for move in MOVES.values()))
        for name, scene in _iter_scenes(testbed)
    ]
    testbed.down()
    _write_table(rows)
    return 1 if any(_WRONG.search(cell) for row in rows for cell in row[2:]) else 0


def _iter_scenes(testbed: Testbed) -> Iterator[tuple[str, Scene]]:
    stage = Stage(testbed)
    with tempfile.TemporaryDirectory() as folder:
        paths = {user: _make_path(Path(folder), user) for user in ("mirage", "bob")}
        os.environ["PATH"] = paths["mirage"]

        def move_as_bob(move: Callable[[Real], None]) -> None:
            with _environ_path(paths["bob"]):
                move(SlurmCli())

        yield "commands", Scene(stage.set(), SlurmCli(), move_as_bob)
        with running_slurmrestd(testbed) as host:
            versions = host.versions()
        for version in versions:
            with running_slurmrestd(testbed, *build_version_options(testbed, version)) as host:
                operator, bobs = host.cluster(commands=SlurmCli()), host.cluster("bob")
                yield version, Scene(stage.set(), operator, partial(_apply_move, bobs))


def _apply_move(cluster: Real, move: Callable[[Real], None]) -> None:
    move(cluster)


def _make_path(folder: Path, user: str) -> str:
    commands = folder / user
    commands.mkdir()
    return put_on_path(commands, user)


@contextmanager
def _environ_path(path: str) -> Iterator[None]:
    previous = os.environ["PATH"]
    os.environ["PATH"] = path
    try:
        yield
    finally:
        os.environ["PATH"] = previous


def _describe_outcome(move: Callable[[Scene], str], scene: Scene) -> str:
    try:
        return move(scene)
    except MirageError as error:
        return f"NO: {error}"[:200].replace("|", "/")


def _write_table(rows: list[tuple[str, ...]]) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    release = rows[0][0]
    old_lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    new_lines = [f"| {' | '.join(row)} |" for row in rows]
    lines = sorted(
        [*(line for line in old_lines if not line.startswith(f"| {release} |")), *new_lines]
    )
    head = ["", f"| release | by | {' | '.join(MOVES)} |", f"|{'---|' * (len(MOVES) + 2)}"]
    PAGE.write_text(f"{before}{BEGIN}{chr(10).join([*head, *lines])}\n\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
