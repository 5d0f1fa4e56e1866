"""A link that plans asks the service first, and what it does by each answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.slurm_plugin.answering import Service
from tests.support.slurm_plugin.planning import HOUR, NEXT, OWN, Planning
from tests.support.slurm_plugin.prepared import PATIENTLY, prepare_program

DAY = 24 * HOUR
Ask = Callable[..., CompletedProcess[str]]


@pytest.fixture
def asking_planning(planning: Planning) -> Planning:
    planning.words["service"] = "site"
    planning.waited([HOUR] * 30)
    return replace(planning, program=prepare_program("planner.plan", PATIENTLY))


@pytest.fixture
def ask(asking_planning: Planning, service: Service) -> Ask:
    """Plan with a service that answers so."""

    def plan(answer: object, turn: int = 1, **told: Any) -> CompletedProcess[str]:
        service.answers = [answer]
        return asking_planning.plan(turn, env={"MIRAGE_URL": service.url}, **told)

    return plan


def says(mode: str, lead_s: object = None) -> dict[str, object]:
    return {"submit_now": False, "ask_again_s": 600, "mode": mode, "lead_s": lead_s}


def test_the_services_plan_is_written_as_it_is(
    asking_planning: Planning, ask: Ask, service: Service
) -> None:
    ask(says("act", 2 * HOUR))
    assert service.requests[0][0] == "/api/v1/chains/0f0000000000000000ab/next?link=1"
    assert asking_planning.lead_minutes() == 120
    assert asking_planning.asked_sacct() == []
    looks = len(asking_planning.questions())
    for turn in (2, 3):
        ask(says("act", 2 * HOUR + 60), turn)
    assert asking_planning.lead_minutes() == 120
    assert len(asking_planning.questions()) == looks, "Slurm is asked only where the plan moves"
    ask(says("act", 3 * HOUR), 2)
    assert asking_planning.lead_minutes() == 180


def test_a_plan_that_the_service_has_moved_itself_is_its_plan_and_nobody_elses(
    asking_planning: Planning, ask: Ask
) -> None:
    ask(says("act", 2 * HOUR))
    moved = f"afterany:{OWN}(unfulfilled)?after:{OWN}+{21 * 60}(unfulfilled)"
    asking_planning.slurm.job_in_full(NEXT, "PENDING", dependency=moved)
    ask(says("act", 3 * HOUR), 2)
    last = asking_planning.log().splitlines()[-1]
    assert last.endswith("180 min before its end: by the service's lead")
    assert len(asking_planning.updates()) == 1
    asking_planning.plan(3)  # nobody answers any more
    assert len(asking_planning.updates()) == 1, "the service would take it for the owner's"
    assert "(you, an admin, or the service)" in asking_planning.log()


def test_after_the_services_own_plan_the_link_has_no_say(
    asking_planning: Planning, ask: Ask
) -> None:
    """Its owner may take that plan away, and no link writes over the owner's word."""
    planned = f"afterany:{OWN}(unfulfilled)?after:{OWN}+{21 * 60}(unfulfilled)"
    asking_planning.slurm.job_in_full(NEXT, "PENDING", dependency=planned)
    ask(says("act", 3 * HOUR))
    assert asking_planning.again_at() == 0
    assert asking_planning.updates() == []


def test_an_unconfirmed_plan_is_tried_again_after_a_service_that_names_no_lead(
    asking_planning: Planning, ask: Ask
) -> None:
    trouble = asking_planning.slurm.root / "scontrol.err"
    trouble.write_text("slurm_update error: Zero Bytes were transmitted or received\n")
    assert asking_planning.plan().returncode == 3
    trouble.unlink()
    ask(says("act"))
    asking_planning.plan(2)  # nobody answers any more
    assert asking_planning.lead_minutes() == 60
    assert "somebody else" not in asking_planning.log()


@pytest.mark.parametrize("lead_s", [None, "7200", -5, True, [], 1e300])
def test_a_service_that_plans_nothing_is_heeded(
    asking_planning: Planning, ask: Ask, lead_s: object
) -> None:
    asked_at = int(time.time())
    ask(says("act", lead_s))
    assert asking_planning.updates() == []
    assert asking_planning.again_at() >= asked_at + 600


@pytest.mark.parametrize(
    "answer", [404, 409, 403, 429, 301, [], {"ask_again_s": "x"}, {"submit_now": 1}]
)
def test_an_older_service_means_no_plan_and_not_no_service(
    asking_planning: Planning, ask: Ask, answer: object
) -> None:
    asked = ask(answer if not isinstance(answer, list) else {"items": answer})
    assert asking_planning.updates() == []
    assert asked.returncode == 3, "it says not when to ask again, and takes up no turn"
    assert "no plan: the service" in (asking_planning.chain / "plans" / "1").read_text()


@pytest.mark.parametrize("answer", [404, 429, says("act")])
def test_after_a_suspension_its_own_plan_is_taken_back_where_the_service_names_none(
    asking_planning: Planning, ask: Ask, answer: object
) -> None:
    """Its minutes ran on in Slurm meanwhile, and by itself this link may not move it."""
    asking_planning.plan()
    assert asking_planning.lead_minutes() == 60
    ask(answer, 2)
    assert asking_planning.lead_minutes() == 60
    looks = len(asking_planning.questions())
    assert ask(answer, 2, jumped=1).returncode == 3, "perhaps a plan is possible later"
    assert asking_planning.minutes() is None
    ask(answer, 2, jumped=1)
    assert len(asking_planning.questions()) == looks + 1, "none stands any more"


def test_after_the_last_turn_its_own_plan_is_watched_where_the_service_names_none(
    asking_planning: Planning, ask: Ask
) -> None:
    asking_planning.plan()
    ask(says("act"), 3)
    assert asking_planning.again_at() == asking_planning.end - HOUR


@pytest.mark.parametrize("answer", [404, 409])
def test_a_lead_by_hand_stands_where_the_service_does_not_know_the_chain(
    asking_planning: Planning, ask: Ask, answer: int
) -> None:
    ask(answer, lead=1800)
    assert asking_planning.lead_minutes() == 30
    ask(says("shadow"), 2, lead=1800)
    ask(answer, 3, lead=1800)
    assert asking_planning.minutes() is None


@pytest.mark.parametrize("trouble", [503, 500])
def test_a_service_in_trouble_is_none(asking_planning: Planning, ask: Ask, trouble: int) -> None:
    ask(trouble)
    assert asking_planning.lead_minutes() == 60


@pytest.mark.parametrize("mode", ["shadow", "observe"])
@pytest.mark.parametrize("told", [{}, {"lead": 1800}])
def test_a_site_in_shadow_sees_no_plan_for_a_day(
    asking_planning: Planning, ask: Ask, mode: str, told: dict[str, Any]
) -> None:
    ask(says(mode), **told)
    asking_planning.plan(2, **told)  # nobody answers any more
    assert asking_planning.updates() == []
    assert f"the site's Mirage is in mode {mode}" in asking_planning.log()
    asking_planning.has("told_mode", f"{mode} {int(time.time()) - DAY - 300}")
    asking_planning.plan(3, **told)
    assert asking_planning.lead_minutes() == (30 if told else 60)


@pytest.mark.parametrize("note", ["shadow", "shadow x", "act 5", f"shadow {10**10}", ""])
def test_a_note_of_the_mode_that_does_not_read_holds_nothing_back(
    asking_planning: Planning, note: str
) -> None:
    asking_planning.has("told_mode", note)
    asking_planning.plan()
    assert asking_planning.lead_minutes() == 60


def test_its_own_plan_is_taken_back_where_the_service_comes_up_in_shadow(
    asking_planning: Planning, ask: Ask
) -> None:
    asking_planning.plan()
    assert asking_planning.lead_minutes() == 60
    ask(says("shadow"), 2)
    assert asking_planning.minutes() is None
    assert asking_planning.updates()[-1].endswith("Dependency=afterany:101")


def test_the_services_plan_outlives_the_service_where_the_link_knows_nothing(
    asking_planning: Planning, ask: Ask
) -> None:
    asking_planning.answers("", 1)
    ask(says("act", 2 * HOUR))
    for turn in (1, 2, 3):  # the first turn once more: a requeued link begins anew
        asking_planning.plan(turn)
        assert asking_planning.lead_minutes() == 120
    assert (
        asking_planning.log().splitlines()[-1].endswith("the plan stays: no past waits are known")
    )


@pytest.mark.parametrize("change", ["limit", "max_lead"])
def test_the_services_plan_does_not_outlive_its_bounds(
    asking_planning: Planning, ask: Ask, change: str
) -> None:
    asking_planning.answers("", 1)
    ask(says("act", 2 * HOUR))
    if change == "limit":
        asking_planning.runs(end=asking_planning.end + HOUR)
    else:
        asking_planning.conf.write_text("max_lead = 60\n")
    asking_planning.plan(2)
    assert asking_planning.minutes() is None


REGISTRATION = '{"chain_id": "0f0000000000000000ab", "job_id": 101, "links": 5}'


@pytest.mark.parametrize(
    ("code", "stays", "said"),
    [
        (201, False, "the service has registered the chain"),
        (403, False, "the service refuses to register the chain: 403: the reason"),
        (429, True, ""),
        (503, True, ""),
    ],
)
def test_a_link_registers_a_chain_that_no_service_could_be_told_of(
    asking_planning: Planning, ask: Ask, service: Service, code: int, *, stays: bool, said: str
) -> None:
    asking_planning.has("unregistered", REGISTRATION)
    service.post_status = code
    ask(says("act", 2 * HOUR))
    assert service.posted == [("/api/v1/chains", REGISTRATION.encode())]
    assert (asking_planning.chain / "unregistered").exists() is stays
    assert said in asking_planning.log()
    assert asking_planning.lead_minutes() == 120
    ask(says("act", 2 * HOUR), 2)
    assert len(service.posted) == 1 + stays


def test_a_service_that_is_older_than_returns_is_told_of_none(
    asking_planning: Planning, ask: Ask, service: Service
) -> None:
    body = REGISTRATION[:-1] + ', "style": "sequential", "max_returns": 2}'
    asking_planning.has("unregistered", body)
    service.unknown_field = "max_returns"
    ask(says("act", 2 * HOUR))
    rest = REGISTRATION[:-1] + ', "style": "sequential"}'
    assert [posted for _, posted in service.posted] == [body.encode(), rest.encode()]
    assert "the service has registered the chain" in asking_planning.log()


def test_a_chain_that_asks_for_no_service_is_not_registered_by_its_links(
    asking_planning: Planning, ask: Ask, service: Service
) -> None:
    asking_planning.has("unregistered", REGISTRATION)
    ask(says("act"), service="none")
    assert service.posted == []


def test_act_ends_what_was_told_before(asking_planning: Planning, ask: Ask) -> None:
    ask(says("shadow"))
    ask(says("act"), 2)
    asking_planning.plan(3)
    assert asking_planning.lead_minutes() == 60


def test_a_lead_by_hand_goes_before_the_services(asking_planning: Planning, ask: Ask) -> None:
    ask(says("act", 3 * HOUR), lead=1800)
    assert asking_planning.lead_minutes() == 30


@pytest.mark.parametrize(("conf", "lead"), [("plans = never", None), ("max_lead = 10", 10)])
def test_the_admins_word_bounds_a_lead_by_hand_beside_a_service_too(
    asking_planning: Planning, ask: Ask, conf: str, lead: int | None
) -> None:
    asking_planning.conf.write_text(conf)
    ask(says("act"), lead=1800)
    assert asking_planning.lead_minutes() == lead


def test_whoever_asks_for_no_service_asks_none(
    asking_planning: Planning, ask: Ask, service: Service
) -> None:
    ask(says("shadow"), service="none")
    assert service.requests == []
    assert asking_planning.lead_minutes() == 60
