"""A chain that nobody registered keeps to the strictest settings, or to what its jobs tell."""

import pytest
from structlog.testing import capture_logs

from mirage import logs
from mirage.chains.lifecycle import Registration, register_chain
from mirage.database.chains import chains, decisions
from mirage.database.events import audit
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, Style
from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.ports import Policy
from mirage.errors import NotFound
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.slurm.clients.cli.client import SlurmCli
from tests.support.cluster.commands import FakeCommands
from tests.support.provision.printed import show_two_links
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import ALICE, CHAIN, NOW, chain


class Clock(SlurmCli):
    def read_clock(self) -> int:
        return NOW


class Early(Always):
    """Would release the standby 50 minutes before its predecessor's end."""

    def decide(self, view: PolicyView) -> Decision:
        return Decision(
            action=Action.WAIT,
            reason="not yet",
            policy=self.name,
            forecast=Forecast(p10_s=3000, p50_s=3000, p90_s=3000),
            release_at=view.predecessor_end - 3000,
        )


PLAIN = "afterany:11(unfulfilled)"
FREES = DecisionSettings(get_policy=Always, default_policy="always")


def look(
    store: Store,
    commands: FakeCommands,
    comment: str = "",
    dependency: str = PLAIN,
    settings: DecisionSettings = FREES,
) -> list[Action]:
    """What is decided of link 2 while link 1 has 55 minutes left; the policy would free it."""
    show_two_links(commands, comment, dependency)
    Worker(store, Clock(), 1, settings=settings).run_tick()
    with store.read() as tx:
        return [row.action for row in decisions.list_link_decisions(tx, 1, CHAIN, 2, last=9)]


def test_a_chain_of_unknown_settings_is_never_early(
    acting_store: Store, no_accounting: FakeCommands
) -> None:
    assert look(acting_store, no_accounting) == [Action.WAIT]
    assert no_accounting.calls("scontrol") == []
    found = chain(acting_store)
    assert (found.style, found.max_overlap_s, found.is_registered) == (Style.SEQUENTIAL, 0, False)
    with acting_store.read() as tx:
        row = decisions.find_last_decision(tx, 1, CHAIN, 2)
    assert row is not None
    assert "never overlap" in row.reason


PLANNED = f"{PLAIN}?after:11+30(unfulfilled)"


def test_a_plan_of_its_running_link_stays(acting_store: Store, no_accounting: FakeCommands) -> None:
    """The link knows what its user allows, and the service does not."""
    assert look(acting_store, no_accounting, dependency=PLANNED) == [Action.WAIT]
    assert no_accounting.calls("scontrol") == []


def test_a_plan_of_its_running_link_obeys_the_admins_limits(
    acting_store: Store, no_accounting: FakeCommands
) -> None:
    limits = Limits(account_overlap_node_h=0)
    settings = DecisionSettings(get_policy=Early, default_policy="early", limits=limits)
    assert look(acting_store, no_accounting, dependency=PLANNED, settings=settings) == [Action.HOLD]


def test_a_plan_of_its_running_link_is_not_moved(
    acting_store: Store, no_accounting: FakeCommands
) -> None:
    settings = DecisionSettings(get_policy=Early, default_policy="early")
    assert look(acting_store, no_accounting, dependency=PLANNED, settings=settings) == [Action.WAIT]


@pytest.mark.parametrize(
    ("comment", "action"),
    [
        ("mirage:max-overlap=2:00:00", Action.FREE),
        ("mine mirage:style=switch,max-overlap=60", Action.WAIT),  # nobody else waits
        ("mine mirage:style=concurrent,max-overlap=60", Action.FREE),
        ("mirage:max-overlap=10:00", Action.WAIT),
        ("mirage:never-overlap", Action.WAIT),
        ("mirage:style=concurrent", Action.WAIT),
        ("mirage:max-overlap=whenever", Action.WAIT),
    ],
)
def test_what_its_comment_tells_counts(
    acting_store: Store, no_accounting: FakeCommands, comment: str, action: Action
) -> None:
    assert look(acting_store, no_accounting, comment) == [action]


def test_a_chain_that_asks_for_no_service_is_followed_by_none(
    acting_store: Store, no_accounting: FakeCommands
) -> None:
    assert look(acting_store, no_accounting, "mine mirage:service=none,lead=90") == []
    with acting_store.read() as tx:
        assert not chains.find_chains(tx, 1, {CHAIN})


def test_a_registration_that_comes_later_brings_the_settings(
    acting_store: Store, no_accounting: FakeCommands
) -> None:
    assert look(acting_store, no_accounting) == [Action.WAIT]
    with acting_store.begin() as tx:
        new = Registration(chain_id=CHAIN, links=9, max_overlap_s=7200, style=Style.CONCURRENT)
        register_chain(tx, 1, new, uid=ALICE, user="alice", now=NOW)
    assert look(acting_store, no_accounting)[-1] == Action.FREE
    found = chain(acting_store)
    assert (found.style, found.max_overlap_s, found.is_registered) == (Style.CONCURRENT, 7200, True)


def test_one_that_an_earlier_release_adopted_is_never_early_either(
    acting_store: Store, no_accounting: FakeCommands
) -> None:
    with acting_store.begin() as tx:
        chains.save_chain(tx, 1, Chain(chain_id=CHAIN, uid=ALICE, user="alice", created_at=NOW))
    assert look(acting_store, no_accounting) == [Action.WAIT]


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("average", "average"),
        ("models/gpu-4", "models/gpu-4"),
        ("best-of-all", None),
        ("models/../secret", None),
    ],
)
def test_a_policy_that_nobody_has_is_no_wish(
    acting_store: Store, no_accounting: FakeCommands, name: str, taken: str | None
) -> None:
    look(acting_store, no_accounting, f"mirage:policy={name}")
    assert chain(acting_store).policy == taken
    with acting_store.read() as tx:
        (entry,) = audit.list_entries(tx, 1, event="adopted")
    assert entry.detail.get("unknown_policy") == (None if taken else name)


def test_a_policy_that_is_gone_does_not_fill_the_log(
    acting_store: Store, no_accounting: FakeCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fifty looks may take minutes on a busy machine; each minute has its own lines.
    monkeypatch.setattr(logs, "_MINUTE_S", 3600.0)

    def is_gone(name: str) -> Policy:
        raise NotFound(f"no policy {name!r}")

    with capture_logs() as said:
        for _ in range(50):
            look(
                acting_store,
                no_accounting,
                settings=DecisionSettings(get_policy=is_gone, default_policy="gone"),
            )
    assert 0 < len([line for line in said if line["event"] == "a policy failed"]) <= 20
