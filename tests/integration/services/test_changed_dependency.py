"""What a standby's owner writes into its dependency after the look is not overwritten."""

import pytest

from mirage.cluster.cli.client import SlurmCli
from mirage.domain.decision import Action
from mirage.services.provision.decision_context import Rules
from mirage.slurm.text import delimited_rows
from mirage.store.chains import decisions
from mirage.store.chains.decisions import Effect
from mirage.store.database.engine import Store
from mirage.store.events import audit
from mirage.worker import Worker
from tests.support.cluster.commands import FakeCommands
from tests.support.services.printed import printed
from tests.support.services.scene import Always
from tests.support.services.slurm_jobs import ALICE, CHAIN, NOW

FREES = Rules(policy=Always, default="always")
AT_THE_LOOK = "afterany:11(unfulfilled)"
COMMENT = "mirage:style=concurrent,max-overlap=4:00:00"


class Clock(SlurmCli):
    at = NOW

    def read_clock(self) -> int:
        return self.at


def shows(commands: FakeCommands, queue: str, before_the_move: str) -> None:
    """What squeue prints of link 2's dependency, in the queue and right before the move."""
    mine = {"UserID": str(ALICE)}
    first = printed(
        **mine,
        State="RUNNING",
        Reason="None",
        StartTime=str(NOW - 300),
        EndTime=str(NOW + 3300),
        NodeList="gpu01",
        Comment=f"{COMMENT} mirage:{CHAIN}:1",
    )
    second = printed(
        **mine,
        JobID="12",
        Reason="Dependency",
        StartTime="N/A",
        EndTime="N/A",
        Dependency=queue,
        Comment=f"{COMMENT} mirage:{CHAIN}:2",
    )
    text = (first + second).replace(delimited_rows.SEPARATOR, "|")
    asked = f"12|{ALICE}||PENDING|Dependency|5|{before_the_move}|\n"
    commands.answers("squeue", text, asked={"--jobs=12": asked})
    commands.answers("scontrol")


@pytest.mark.parametrize("term", ["afterok:7", "singleton", "afterany:7_3", "after:11+90"])
def test_a_term_that_the_owner_adds_after_the_look_stays_and_the_move_is_tried_again(
    acting_store: Store, no_accounting: FakeCommands, term: str
) -> None:
    newer = f"{AT_THE_LOOK},{term}(unfulfilled)"
    shows(no_accounting, AT_THE_LOOK, newer)
    clock = Clock()
    worker = Worker(acting_store, clock, 1, rules=FREES)
    worker.run_tick()
    updates = [call for call in no_accounting.calls("scontrol") if call[0] == "update"]
    assert updates == []
    with acting_store.read() as tx:
        row = decisions.find_last_decision(tx, 1, CHAIN, 2)
        (said,) = audit.list_entries(tx, 1, event="free: failed")
    assert row is not None
    assert (row.action, row.effect) == (Action.FREE, Effect.FAILED)
    assert newer in row.error
    assert said.detail["error"] == row.error
    shows(no_accounting, newer, newer)
    clock.at += 60
    worker.run_tick()
    updates = [call for call in no_accounting.calls("scontrol") if call[0] == "update"]
    kept = [] if term == "singleton" else [["update", "JobId=12", f"Dependency={term}"]]
    assert updates == kept, "with a singleton it can never start early: it is left where it is"


@pytest.mark.parametrize("now", [AT_THE_LOOK, "afterany:11", "afterany:11(failed)"])
def test_slurms_own_remarks_are_no_change(
    acting_store: Store, no_accounting: FakeCommands, now: str
) -> None:
    shows(no_accounting, AT_THE_LOOK, now)
    Worker(acting_store, Clock(), 1, rules=FREES).run_tick()
    updates = [call for call in no_accounting.calls("scontrol") if call[0] == "update"]
    assert updates == [["update", "JobId=12", "Dependency="]]
