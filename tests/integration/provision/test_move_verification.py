"""Moves that Slurm took and did not keep: seen in its next queue, and made again once."""

import pytest

from mirage.chains.request_enforcement import ASK_AGAIN_S
from mirage.database.chains import decisions
from mirage.database.schema.engine import Store
from mirage.domain.chain import Position
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.move_verification import NOT_KEPT, NOT_KEPT_AGAIN
from mirage.service.worker import Worker
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.text import delimited_rows
from tests.support.cluster.commands import FakeCommands
from tests.support.provision.printed import print_row
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import ALICE, CHAIN, NOW, events, links

BEHIND = "afterany:11(unfulfilled)"


class Clock(SlurmCli):
    """At the time of the queue's rows."""

    at = NOW

    def read_clock(self) -> int:
        return self.at


def shows(
    commands: FakeCommands, dependency: str, *, first: str = "RUNNING", second: str = "PENDING"
) -> None:
    end = str(NOW + (3300 if first == "RUNNING" else 30))
    started = {"StartTime": str(NOW - 300), "NodeList": "gpu01", "UserID": str(ALICE)}
    again = {"StartTime": "N/A", "SubmitTime": str(NOW + 90), "UserID": str(ALICE)}
    shown = again if first == "PENDING" else {**started, "EndTime": end}
    before = print_row(**shown, State=first, Reason="None", Comment=f"mirage:{CHAIN}:1")
    mine = {"JobID": "12", "State": second, "Dependency": dependency}
    mine |= {"UserID": str(ALICE), "Comment": f"mirage:{CHAIN}:2"}
    mine |= {"StartTime": "N/A", "Reason": "Dependency"} if second == "PENDING" else started
    asked = f"12|{ALICE}||{second}|Dependency|5|{dependency}|\n"
    queue = (before + print_row(**mine)).replace(delimited_rows.SEPARATOR, "|")
    commands.answers("squeue", queue, by_argument={"--jobs=12": asked})


class Loop:
    def __init__(self, store: Store) -> None:
        self.store, self.slurm = store, Clock()
        settings = DecisionSettings(get_policy=Always, default_policy="always")
        self.worker = Worker(store, self.slurm, 1, settings=settings)

    def tick(self, after_s: int = 60) -> None:
        self.slurm.at += after_s
        self.worker.run_tick()

    def told(self) -> list[tuple[str, str]]:
        with self.store.read() as tx:
            found = decisions.list_link_decisions(tx, 1, CHAIN, 2, last=50)
        return [(row.effect.value, row.error) for row in found if row.effect.value != "none"]


def test_a_move_that_is_not_kept_is_made_again_once(
    acting_chain_store: Store, no_accounting: FakeCommands
) -> None:
    loop = Loop(acting_chain_store)
    shows(no_accounting, BEHIND)
    for _ in range(6):
        loop.tick()
    assert loop.told() == [("failed", NOT_KEPT), ("refused", NOT_KEPT_AGAIN)]
    assert [call[1] for call in no_accounting.calls("scontrol")] == ["JobId=12"] * 2
    standby = links(acting_chain_store)[2]
    assert (standby.position, standby.freed_at) == (Position.HELD, None)
    assert events(acting_chain_store) == [
        "registered",
        "free: done",
        "reconciled free: failed",
        "at risk",
        "free: done",
        "reconciled free: refused",
    ]
    loop.tick(ASK_AGAIN_S)
    assert len(no_accounting.calls("scontrol")) == 3, "as a move that was refused"


def test_the_second_time_may_be_good(
    acting_chain_store: Store, no_accounting: FakeCommands
) -> None:
    loop = Loop(acting_chain_store)
    shows(no_accounting, BEHIND)
    loop.tick()
    loop.tick()
    shows(no_accounting, "(null)")
    for _ in range(3):
        loop.tick()
    assert loop.told() == [("failed", NOT_KEPT), ("done", "")]
    assert links(acting_chain_store)[2].position is Position.FREE


@pytest.mark.parametrize(
    ("dependency", "first", "second"),
    [
        ("(null)", "RUNNING", "PENDING"),
        ("afterok:7(unfulfilled)", "RUNNING", "PENDING"),
        (BEHIND, "RUNNING", "RUNNING"),
        (BEHIND, "COMPLETED", "PENDING"),
    ],
)
def test_what_is_kept_or_came_too_late_is_left_at_that(
    acting_chain_store: Store,
    no_accounting: FakeCommands,
    dependency: str,
    first: str,
    second: str,
) -> None:
    loop = Loop(acting_chain_store)
    shows(no_accounting, BEHIND)
    loop.tick()
    shows(no_accounting, dependency, first=first, second=second)
    for _ in range(2):
        loop.tick()
    assert loop.told() == [("done", "")]
    assert len(no_accounting.calls("scontrol")) == 1


def test_only_the_next_look_counts_and_no_call_is_made_for_it(
    acting_chain_store: Store, no_accounting: FakeCommands
) -> None:
    """What somebody changes later is theirs, and decided about as ever."""
    loop = Loop(acting_chain_store)
    shows(no_accounting, BEHIND)
    loop.tick()
    shows(no_accounting, "(null)")
    before = len(no_accounting.calls("squeue"))
    loop.tick()
    assert len(no_accounting.calls("squeue")) == before + 1
    shows(no_accounting, BEHIND)
    loop.tick()
    assert [effect for effect, _ in loop.told()] == ["done", "done"]


def test_a_hold_that_is_not_kept_leaves_the_standby_where_it_was(
    acting_chain_store: Store, no_accounting: FakeCommands
) -> None:
    """Free still, so that it is held again: its predecessor has been requeued."""
    loop = Loop(acting_chain_store)
    shows(no_accounting, BEHIND)
    loop.tick()
    shows(no_accounting, "(null)")
    loop.tick()
    shows(no_accounting, "(null)", first="PENDING")
    for _ in range(5):
        loop.tick()
    effects = [effect for effect, _ in loop.told()]
    assert effects == ["done", "failed", "refused"]
    standby = links(acting_chain_store)[2]
    assert standby.position is Position.FREE
    assert standby.freed_at is not None
    told = [word for call in no_accounting.calls("scontrol") for word in call if "Depend" in word]
    assert told == ["Dependency=", "Dependency=afterany:11", "Dependency=afterany:11"]
