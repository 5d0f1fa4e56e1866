"""The figures of `benchmarks.plans_alone`, from hand-overs made by hand."""

from benchmarks.plans_alone import Outcome, compute_figures
from mirage.domain.handover import Handover

HOUR_S = 3600


def made(arm: str, place: int, late_h: float, *, group: int = 1, lead_h: float = 0) -> Outcome:
    """A successor that starts so many hours after its predecessor's end."""
    handover = Handover(10 * HOUR_S, round((10 + late_h) * HOUR_S))
    return Outcome(arm, group, place, handover, round(lead_h * HOUR_S))


def test_each_arm_is_compared_with_plain_and_with_the_live_service() -> None:
    outcomes = [
        *(made("plain", place, 1.0) for place in (1, 2)),
        *(made("live", place, 0.0, lead_h=1.0) for place in (1, 2)),
        made("away", 1, 0.0, lead_h=1.0),
        made("away", 2, 0.5, lead_h=0.5),
        made("never", 1, 1.0),
        made("never", 2, -0.5, lead_h=1.5),
    ]
    parts = compute_figures(outcomes)["parts"]
    assert {arm: row["cost_h"] for arm, row in parts["all"].items()} == {
        "live": 0.0,
        "away": 0.25,
        "never": 0.625,
        "plain": 1.0,
    }
    assert {arm: row["of_live_pct"] for arm, row in parts["all"].items()} == {
        "live": 100,
        "away": 75,
        "never": 38,
        "plain": 0,
    }
    assert parts["first"]["away"]["of_live_pct"] == 100
    assert parts["later"]["away"]["of_live_pct"] == 50
    assert parts["later"]["never"] | {"saved_h": 0, "of_live_pct": 0} == {
        "handovers": 1,
        "interruption_h": 0,
        "overlap_h": 0.5,
        "lead_h": 1.5,
        "released_early": 1,
        "cost_h": 0.25,
        "saved_h": 0,
        "of_live_pct": 0,
    }


def test_only_hand_overs_that_every_arm_has_count() -> None:
    outcomes = [made(arm, 1, 1.0) for arm in ("live", "away", "never", "plain")]
    outcomes += [made("plain", 2, 9.0), made("live", 1, 9.0, group=2)]
    figures = compute_figures(outcomes)
    assert {row["handovers"] for row in figures["parts"]["all"].values()} == {1}
    assert figures["parts"]["all"]["away"]["of_live_pct"] is None, "the live one saves nothing"
    assert len(figures["handovers"]) == len(outcomes)
