"""Why a chain stands as it does, in words."""

import pytest

from mirage.chains import explanations
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.domain.chain_cause import (
    Actor,
    Cause,
    ChainRisk,
    Reason,
    Risk,
    build_mirage_cause,
    build_user_cause,
)
from mirage.domain.job import JobId
from tests.support.chains import make_chain

CHAIN = ChainId("abcdefgh")
JOB = JobId(12)
GOES_ON = f"; mend the cause, then run `mirage chain resume {CHAIN}`"

PAUSED, ACTIVE, OVER = ChainState.PAUSED, ChainState.ACTIVE, ChainState.CANCELLED


def standing(state: ChainState, cause: Cause | None, min_runtime_s: int | None = None) -> str:
    chain = make_chain(CHAIN, state=state, cause=cause, min_runtime_s=min_runtime_s)
    return explanations.describe_chain(chain)


SAYS = {
    Reason.ASKED: (OVER, build_user_cause("alice"), "cancelled by alice"),
    Reason.NEVER_SEEN: (
        OVER,
        build_mirage_cause(Reason.NEVER_SEEN),
        "Slurm has never shown a job of this chain",
    ),
    Reason.NEVER_STARTED: (
        OVER,
        build_mirage_cause(Reason.NEVER_STARTED),
        "cancelled before it started",
    ),
    Reason.LINK_CANCELLED: (
        OVER,
        build_mirage_cause(Reason.LINK_CANCELLED, 2),
        "link 2 was cancelled",
    ),
    Reason.ALL_LINKS_RAN: (OVER, build_mirage_cause(Reason.ALL_LINKS_RAN, 3), "all 3 links ran"),
    Reason.TOTAL_RAN: (
        *(OVER, build_mirage_cause(Reason.TOTAL_RAN, detail="5400")),
        "its links ran for 1.5 h in total",
    ),
    Reason.LINK_ENDED: (
        *(OVER, build_mirage_cause(Reason.LINK_ENDED, 2, JOB, "NODE_FAIL")),
        "ended with link 2, NODE_FAIL",
    ),
    Reason.FAILED_FAST: (
        *(PAUSED, build_mirage_cause(Reason.FAILED_FAST)),
        f"paused: 3 links in a row failed within 10 minutes{GOES_ON}",
    ),
    Reason.BRIEF: (
        *(PAUSED, build_mirage_cause(Reason.BRIEF)),
        f"paused: 5 links in a row ran for less than a minute{GOES_ON}",
    ),
    Reason.TURNED_AWAY: (
        *(PAUSED, build_mirage_cause(Reason.TURNED_AWAY)),
        "paused: its last links ended soon after their start; mend the cause, then run "
        f"`mirage-link resume {CHAIN}`",
    ),
    Reason.STANDBY_GONE: (
        *(PAUSED, build_mirage_cause(Reason.STANDBY_GONE, 2, JOB, "CANCELLED")),
        "paused: the standby for link 2 (job 12) is gone: CANCELLED, as was the one before it",
    ),
    Reason.OWN_LIMIT: (
        *(ACTIVE, build_mirage_cause(Reason.OWN_LIMIT, 2, JOB, "QOSMaxJobsPerUserLimit")),
        "link 2 (job 12) waits: a limit of its user, account or QOS is reached; it cannot start "
        "beside its predecessor",
    ),
    Reason.WAITS_FOR: (
        *(ACTIVE, build_mirage_cause(Reason.WAITS_FOR, 2, JOB, "1 11")),
        f"link 2 (job {JOB}) waits for link 1 (job 11)",
    ),
    Reason.UNRECORDED: (
        OVER,
        build_mirage_cause(Reason.UNRECORDED, detail="as it was"),
        "as it was",
    ),
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    state, cause, sentence = SAYS[reason]
    assert standing(state, cause) == sentence


RISKS = {
    Risk.NO_STANDBY: (
        ChainRisk(of=Risk.NO_STANDBY, link=1),
        "the link after link 1 is not in the queue",
    ),
    Risk.VANISHED: (
        ChainRisk(of=Risk.VANISHED, link=2, job_id=JOB, detail="DEADLINE"),
        "the standby for link 2 (job 12) is gone: DEADLINE",
    ),
    Risk.UNKNOWN: (ChainRisk(of=Risk.UNKNOWN, link=2), "Slurm no longer shows link 2"),
    Risk.REFUSED: (ChainRisk(of=Risk.REFUSED, link=2, detail="no"), "Slurm refuses link 2: no"),
    Risk.LATE: (
        ChainRisk(of=Risk.LATE, link=2, job_id=JOB),
        "link 2 (job 12) will start after the end of the link before it, by its forecast",
    ),
    Risk.MOVE_REFUSED: (
        ChainRisk(of=Risk.MOVE_REFUSED, link=2, job_id=JOB, detail="no"),
        "Slurm did not move link 2 (job 12): no",
    ),
    Risk.HINDERED: (
        ChainRisk(of=Risk.HINDERED, link=2, job_id=JOB, detail="JobHeldAdmin"),
        "link 2 (job 12) waits: an admin holds it",
    ),
}


@pytest.mark.parametrize("risk", Risk)
def test_every_risk_has_a_sentence(risk: Risk) -> None:
    found, sentence = RISKS[risk]
    chain = Chain(
        chain_id=CHAIN, uid=1, at_risk=found, cause=build_mirage_cause(Reason.OWN_LIMIT, 1)
    )
    assert (explanations.explain_risk(found), explanations.describe_chain(chain)) == (
        sentence,
        f"at risk: {sentence}",
    )


def test_a_chain_that_goes_on_says_nothing() -> None:
    assert standing(ACTIVE, None) == ""


def test_a_chains_own_bound_is_the_one_that_is_told() -> None:
    assert "failed within 90 s;" in standing(PAUSED, build_mirage_cause(Reason.FAILED_FAST), 90)


def test_a_word_that_slurm_has_no_more_is_shown_as_it_is() -> None:
    found = ChainRisk(of=Risk.HINDERED, link=2, job_id=JOB, detail="OfAnOlderRelease")
    assert explanations.explain_risk(found) == "link 2 (job 12) waits: OfAnOlderRelease"


def test_a_pause_of_unknown_hand_is_shown_without_a_beginning() -> None:
    cause = Cause(actor=Actor.USER, reason=Reason.UNRECORDED, detail="since the flood")
    assert standing(PAUSED, cause) == "since the flood"
