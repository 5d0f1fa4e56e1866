"""`auto` asks the first candidate that can be asked, and leaves it for one that did better."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.observation import spec
from mirage.policies import registry
from mirage.policies.auto_policy import AutoPolicy, Candidate, Choice
from mirage.policies.models.artefact import CARD
from mirage.policies.models.scope import Scope
from mirage.policies.results.comparison import Results, Weighing, merge_results
from tests.support.policies.views import NOW, view, waits
from tests.support.training.committed import save
from tests.support.training.queue_tables import training_table

DAY_S = 86400
LIMIT_S = training_table().metadata.time_limit_s


@dataclass(frozen=True)
class Rule(SimplePolicy):
    """Answers with its action, where nothing hinders it."""

    name: str
    action: Action = Action.WAIT
    hindrance: str | None = None

    def explain_unfit(self, view: PolicyView) -> str | None:
        return self.hindrance

    def decide(self, _: PolicyView) -> Decision:
        return Decision(action=self.action, reason="so it is", policy=self.name)


def results(days: int, load_h: float = 1.0, **x_h: float) -> Results:
    """A hand-over a day until yesterday, each policy with the same outcome but for a little."""
    start_point = NOW - DAY_S * np.arange(days, 0, -1)
    noise = 0.01 * (np.arange(days) % 3)
    columns = np.column_stack([np.full(days, x) + noise * p for p, x in enumerate(x_h.values())])
    return Results(
        tuple(x_h), start_point, start_point + DAY_S // 2, np.full(days, load_h), columns
    )


def auto(*rules: Rule, known: Results | None = None) -> AutoPolicy:
    found = Results.create_empty() if known is None else known
    return AutoPolicy(tuple(Candidate(rule) for rule in rules), results=lambda _: found)


def chosen(asked: AutoPolicy, price: float = 0.5) -> str:
    return asked.choose_candidate(view(0, overlap_price=price)).policy.name


A, B, C = Rule("a", Action.FREE), Rule("b"), Rule("c")


def test_without_results_the_first_decides_and_says_so() -> None:
    decision = auto(A, B).decide(view(0))
    assert decision.policy == "auto"
    assert (decision.action, decision.reason) == (Action.FREE, "a decides: so it is")


def test_what_cannot_be_asked_is_skipped_and_named() -> None:
    lame = Rule("lame", Action.FREE, "it has lost its glasses")
    decision = auto(lame, B).decide(view(0))
    assert decision.action is Action.WAIT
    wanted = "b decides, since lame cannot be asked (it has lost its glasses): so it is"
    assert decision.reason == wanted


def test_a_later_one_that_cost_less_decides_and_the_dearer_is_named() -> None:
    known = results(20, a=2.0, b=0.5)
    assert chosen(auto(A, B, known=known)) == "b"
    assert "since a cost more lately" in auto(A, B, known=known).decide(view(0)).reason


def test_one_that_was_not_clearly_dearer_is_not_said_to_be() -> None:
    known = results(20, a=2.0, b=2.0, c=0.5)
    reason = auto(A, B, C, known=known).decide(view(0)).reason
    assert reason.startswith("c decides, since a cost more lately: ")


def test_the_price_weighs_overlap_against_interruption() -> None:
    known = results(20, a=-3.0, b=1.0)
    assert chosen(auto(A, B, known=known), price=0.1) == "a"
    assert chosen(auto(A, B, known=known), price=2.0) == "b"


def test_results_of_few_days_prove_nothing() -> None:
    assert chosen(auto(A, B, known=results(3, a=2.0, b=0.5))) == "a"
    # Many hand-overs of three days are still three days.
    thrice = results(3, a=2.0, b=0.5)
    hours = [
        Results(r.names, r.start_point + h * 600, r.known_at, r.load_h, r.x_h)
        for h in range(30)
        for r in (thrice,)
    ]
    assert chosen(auto(A, B, known=merge_results(hours))) == "a"


def test_a_difference_within_its_error_changes_nothing() -> None:
    known = results(20, a=1.0, b=1.0)
    known.x_h[:, 0] += np.where(np.arange(20) % 2, 3.0, -0.9)
    known.x_h[:, 1] += np.where(np.arange(20) % 4 < 2, 3.0, -0.9)
    assert chosen(auto(A, B, known=known)) == "a"


def test_results_that_were_not_known_at_the_predecessors_start_do_not_count() -> None:
    known = results(20, a=2.0, b=0.5)
    later = Results(
        known.names, known.start_point, known.known_at + 30 * DAY_S, known.load_h, known.x_h
    )
    assert chosen(auto(A, B, known=later)) == "a"


def test_an_end_that_a_suspension_has_moved_moves_no_choice() -> None:
    """It is made as of the predecessor's start."""
    seen = view(3600)
    began = NOW - seen.time_limit_s
    known = results(20, a=2.0, b=0.5)
    known_at = np.full(len(known), began + 60)
    asked = auto(A, B, known=replace(known, known_at=known_at))
    assert asked.choose_candidate(seen).policy.name == "b", "it would have begun an hour later"
    assert asked.choose_candidate(replace(seen, predecessor_start=began)).policy.name == "a"


def test_recent_results_and_those_at_a_like_load_weigh_more() -> None:
    weighing = Weighing(half_life_days=5.0, load_width=0.5)
    old = results(40, a=0.5, b=2.0)
    turned = old.x_h[-10:, ::-1].copy()
    old.x_h[-10:] = turned
    weights = weighing.compute_weights(old, NOW, 1.0)
    assert weights[-1] > 20 * weights[0]
    busy = weighing.compute_weights(results(5, load_h=20.0, a=1.0), NOW, 1.0)
    calm = weighing.compute_weights(results(5, load_h=1.0, a=1.0), NOW, 1.0)
    assert (busy < calm / 20).all()
    assert (
        chosen(AutoPolicy((Candidate(A), Candidate(B)), results=lambda _: old, weighing=weighing))
        == "b"
    )


def test_a_model_of_another_cluster_stands_after_quantile_until_it_has_proved_itself() -> None:
    scope = Scope(frozenset({"home"}), (1,), (3600,))
    candidates = (
        Candidate(Rule("model"), scope=scope),
        Candidate(Rule("twin")),
        Candidate(Rule("quantile")),
        Candidate(Rule("fixed-lead"), proven=False),
    )
    known = results(20, model=0.1, quantile=3.0)
    assert AutoPolicy(candidates).choose_candidate(view(0, cluster="home")).policy.name == "model"
    assert AutoPolicy(candidates[2:]).choose_candidate(view(0)).policy.name == "quantile"
    abroad = AutoPolicy((candidates[0], *candidates[2:]))
    assert abroad.choose_candidate(view(0, cluster="abroad")).policy.name == "quantile"
    assert abroad.choose_candidate(view(0)).policy.name == "quantile"
    proved = AutoPolicy((candidates[0], *candidates[2:]), results=lambda _: known)
    assert proved.choose_candidate(view(0, cluster="abroad")).policy.name == "model"


def learned_candidate(name: str, until: int = 1000) -> Candidate:
    """A model of the cluster `home`, which learned from weeks until then."""
    scope = Scope(frozenset({"home"}), (1,), (3600,), (("home", until),))
    return Candidate(Rule(name), scope=scope)


PROVEN = (Candidate(Rule("twin")), Candidate(Rule("quantile")))


def choose_at_home(*candidates: Candidate, known: Results | None = None) -> Choice:
    found = Results.create_empty() if known is None else known
    asked = AutoPolicy((*candidates, *PROVEN), results=lambda _: found)
    return asked.choose_candidate(view(0, cluster="home"))


@pytest.mark.parametrize("rival", ["twin", "quantile"])
def test_a_model_that_its_own_card_shows_dearer_than_the_twin_or_the_rule_does_not_decide(
    rival: str,
) -> None:
    """Not clearly dearer is enough: without an advantage there is no reason to ask it."""
    model = learned_candidate("model")
    known = results(20, model=1.0, **{rival: 0.99})
    assert known.compute_cost_h("model", 0.5).mean() > known.compute_cost_h(rival, 0.5).mean()
    choice = choose_at_home(model, known=known)
    assert (choice.policy.name, choice.dearer) == ("twin", ("model",))
    better = results(20, model=1.0, **{rival: 1.01})
    assert choose_at_home(model, known=better).policy.name == "model"


def test_a_card_of_three_days_shows_no_model_beaten() -> None:
    model = learned_candidate("model")
    assert choose_at_home(model, known=results(3, model=9.0, twin=1.0)).policy.name == "model"


def test_a_twin_that_cannot_be_asked_keeps_no_model_out() -> None:
    lame = (Candidate(Rule("twin", hindrance="it is compiling")), PROVEN[1])
    known = results(20, model=1.0, twin=0.5, quantile=3.0)
    asked = AutoPolicy((learned_candidate("model"), *lame), results=lambda _: known)
    assert asked.choose_candidate(view(0, cluster="home")).policy.name == "model"


def test_of_several_models_of_the_same_weeks_the_cheapest_comes_first() -> None:
    models = [learned_candidate(name) for name in ("a", "b", "c")]
    known = results(20, a=1.0, b=0.99, c=1.0, quantile=3.0)
    assert choose_at_home(*models, known=known).policy.name == "b"
    assert choose_at_home(*models).policy.name == "a"
    unjudged = results(20, b=1.0, quantile=3.0)
    assert choose_at_home(*models, known=unjudged).policy.name == "b"


def test_a_model_of_newer_weeks_comes_before_older_ones() -> None:
    models = (learned_candidate("a", until=1000), learned_candidate("b", until=2000))
    assert choose_at_home(*models).policy.name == "b"


def test_a_standby_that_may_be_pinned_is_pinned_whatever_results_say() -> None:
    """Nothing is observed for it."""
    asked = auto(A, B, known=results(20, a=2.0, b=0.5))
    seen = view(3600, can_pin=True)
    decision = asked.decide(seen)
    assert decision == asked.decide_outright(seen)
    assert (decision.policy, decision.action) == ("auto", Action.PIN)
    assert decision.reason.startswith("pin-then-free decides, since the standby may be pinned: ")


@pytest.mark.parametrize(
    ("left_s", "planned_after_s", "action"),
    [(1800, 3600, Action.WAIT), (30, 3600, Action.FREE), (30, 0, Action.WAIT)],
    ids=["early", "late and near the end", "on time"],
)
def test_a_pinned_standby_is_freed_near_the_end_where_it_is_planned_late(
    left_s: int, planned_after_s: int, action: Action
) -> None:
    planned = view(left_s).predecessor_end + planned_after_s
    seen = view(left_s, can_pin=True, position=Position.PINNED, planned_start=planned)
    assert auto(A, B).decide(seen).action is action


@pytest.mark.parametrize(("first", "action"), [(A, Action.FREE), (B, Action.HOLD)], ids=["a", "b"])
def test_off_nodes_that_are_not_to_be_waited_for_a_candidate_says_where_to(
    first: Rule, action: Action
) -> None:
    seen = view(3600, position=Position.PINNED)
    decision = auto(first).decide(seen)
    assert decision.action is action
    assert decision.reason.startswith(f"{first.name} decides: ")


@pytest.mark.parametrize("can_pin", [True, False])
def test_where_a_held_standby_earns_age_plain_slurm_is_left_to_it(can_pin: bool) -> None:
    decision = auto(A).decide_outright(view(0, can_pin=can_pin, accrues_always=True))
    assert decision is not None
    assert decision.action is Action.WAIT
    assert decision.reason.startswith("reactive decides, since a held standby earns age too")


def test_one_that_was_pinned_before_age_always_accrued_is_not_moved_without_need() -> None:
    pinned = {"position": Position.PINNED, "accrues_always": True}
    assert auto(A).decide(view(3600, can_pin=True, **pinned)).action is Action.WAIT
    assert auto(A).decide(view(3600, **pinned)).action is Action.HOLD


@pytest.fixture
def promoted(tmp_path: Path) -> Path:
    registry.promote_version(save(tmp_path / "made" / "1"))
    return tmp_path


def shown(**fields: object) -> PolicyView:
    given: dict[str, object] = {
        "cluster": "made",
        "time_limit_s": LIMIT_S,
        "jobs": waits([7200] * 30),
        "observation": training_table().observations[40, 12],
    }
    return view(3600, **given | fields)


def test_a_promoted_model_that_fits_decides(promoted: Path) -> None:
    asked = registry.get_policy("auto", promoted)
    assert asked.decide(shown()).reason.startswith("models/made/1 decides: a release now")
    assert registry.get_policy("auto", promoted) is asked


def judge_card(**x_s: int) -> list[dict[str, object]]:
    """What a card tells of ten hand-overs, one a day: each policy with the same outcome."""
    points = [NOW - DAY_S * day for day in range(20, 10, -1)]
    columns = {name: " ".join([str(seconds)] * 10) for name, seconds in x_s.items()}
    return [
        {
            "cluster": "made",
            "nodes": 1,
            "time_limit_s": LIMIT_S,
            "start_point": " ".join(map(str, points)),
            "known_at": " ".join(str(point + DAY_S) for point in points),
            "load_s": " ".join(["7200"] * 10),
            "x_s": {"0.5": columns},
        }
    ]


def test_of_two_promoted_models_of_a_cluster_the_one_that_loses_is_not_used(
    tmp_path: Path,
) -> None:
    """By name the loser comes first."""
    loser = judge_card(model=7200, quantile=3600)
    winner = judge_card(model=1800, quantile=3600)
    registry.promote_version(save(tmp_path / "dqn" / "1", judged=loser))
    alone = registry.get_policy("auto", tmp_path).decide(shown()).reason
    assert alone.startswith("quantile decides, since twin cannot be asked (")
    assert "models/dqn/1 cost more lately" in alone
    registry.promote_version(save(tmp_path / "forest" / "1", judged=winner))
    reason = registry.get_policy("auto", tmp_path).decide(shown()).reason
    assert reason.startswith("models/forest/1 decides")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"observation": None}, "there is no observation"),
        ({"observation": np.full(len(spec.FEATURE_NAMES), np.nan, np.float32)}, "not finite"),
        ({"observation": np.full(len(spec.FEATURE_NAMES), 50.0, np.float32)}, "far from all"),
        ({"nodes": 2}, "trained for 1 node(s), not 2"),
        ({"time_limit_s": 2 * LIMIT_S}, "trained for a time limit of"),
    ],
    ids=["no observation", "nan", "strange", "size", "time limit"],
)
def test_the_chain_falls_back_and_says_why(
    promoted: Path, fields: dict[str, object], why: str
) -> None:
    seen = shown(**fields)
    decision = registry.get_policy("auto", promoted).decide(seen)
    rule = registry.POLICIES["quantile"].decide(seen)
    assert (decision.action, decision.forecast) == (rule.action, rule.forecast)
    assert "quantile decides, since models/made/1 cannot be asked" in decision.reason
    assert why in decision.reason
    assert "\n" not in decision.reason


def test_an_artefact_that_is_unfit_or_gone_is_skipped_and_said(promoted: Path) -> None:
    card = promoted / "made" / "1" / CARD
    card.write_text(card.read_text()[:100])
    told = registry.get_policy("auto", promoted).decide(shown())
    assert "quantile decides, since models/made cannot be asked" in told.reason
    assert "is not valid JSON" in told.reason
    card.unlink()
    assert "there is no" in registry.get_policy("auto", promoted).decide(shown()).reason


def test_without_any_model_a_rule_decides(tmp_path: Path) -> None:
    told = registry.get_policy("auto", tmp_path / "nowhere").decide(shown())
    assert told.reason.startswith("quantile decides, since twin cannot be asked")
