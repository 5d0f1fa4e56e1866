"""What a standby's owner writes into its dependency after the look is not overwritten."""

import pytest

from mirage.database.chains import decisions
from mirage.database.chains.decisions import Effect
from mirage.database.events import audit
from mirage.database.schema.engine import Store
from mirage.domain.decision import Action
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.slurm.clients.cli.client import SlurmCli
from tests.support.cluster.commands import FakeCommands
from tests.support.provision.printed import show_two_links
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import CHAIN, NOW

FREES = DecisionSettings(get_policy=Always, default_policy="always")
AT_THE_LOOK = "afterany:11(unfulfilled)"
COMMENT = "mirage:style=concurrent,max-overlap=4:00:00"


class Clock(SlurmCli):
    at = NOW

    def read_clock(self) -> int:
        return self.at


@pytest.mark.parametrize("term", ["afterok:7", "singleton", "afterany:7_3", "after:11+90"])
def test_a_term_that_the_owner_adds_after_the_look_stays_and_the_move_is_tried_again(
    acting_store: Store, no_accounting: FakeCommands, term: str
) -> None:
    newer = f"{AT_THE_LOOK},{term}(unfulfilled)"
    show_two_links(no_accounting, COMMENT, AT_THE_LOOK, newer)
    no_accounting.answers("scontrol")
    clock = Clock()
    worker = Worker(acting_store, clock, 1, settings=FREES)
    worker.run_tick()
    updates = [call for call in no_accounting.calls("scontrol") if call[0] == "update"]
    assert updates == []
    with acting_store.read() as tx:
        row = decisions.find_last_decision(tx, 1, CHAIN, 2)
        (said,) = audit.list_entries(tx, 1, event="free: given_up")
    assert row is not None
    assert (row.action, row.effect) == (Action.FREE, Effect.GIVEN_UP)
    assert newer in row.error
    assert said.detail["error"] == row.error
    show_two_links(no_accounting, COMMENT, newer, newer)
    clock.at += 60
    worker.run_tick()
    updates = [call for call in no_accounting.calls("scontrol") if call[0] == "update"]
    kept = [] if term == "singleton" else [["update", "JobId=12", f"Dependency={term}"]]
    assert updates == kept, "with a singleton it can never start early: it is left where it is"


@pytest.mark.parametrize("now", [AT_THE_LOOK, "afterany:11", "afterany:11(failed)"])
def test_slurms_own_remarks_are_no_change(
    acting_store: Store, no_accounting: FakeCommands, now: str
) -> None:
    show_two_links(no_accounting, COMMENT, AT_THE_LOOK, now)
    no_accounting.answers("scontrol")
    Worker(acting_store, Clock(), 1, settings=FREES).run_tick()
    updates = [call for call in no_accounting.calls("scontrol") if call[0] == "update"]
    assert updates == [["update", "JobId=12", "Dependency="]]
