"""`mirage evaluate` as a process: its figures, its files, and what it says to bad input."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.registry import MOVES_OFTEN
from tests.support.episodes.tables import DAY_S, MONDAY, build_metadata, table
from tests.support.mirage_process import Answer, run

OUTCOMES = [[-0.2, 0.5, 1.0], [-1.0, 2.0, 6.0], [-2.0, 5.0, 20.0]]
FIGURES = {"episodes", "interruption_h", "overlap_h", "zero_interruption_pct", "cost_h"}
FIGURES |= {"gap_closed"}
HOLD = ("--returns", "0", "--no-guard")
"""Early links hold their nodes, however early they are."""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "E.npz"
    table(OUTCOMES, waits_s=(600, 600)).save(path)
    return path


def refused(*words: str | Path) -> str:
    """The one sentence with which exit code 2 is explained."""
    answer = run("evaluate", *map(str, words))
    assert (answer.code, answer.out) == (2, ""), answer
    (line,) = answer.err.strip().splitlines()
    return line


def document(answer: Answer) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    assert answer.code == 0, answer.err
    read: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(answer.out)
    return read


def test_figures_as_json_on_stdout(made: Path) -> None:
    policies = document(run("evaluate", str(made), "--policy", "at-once", *HOLD, "--json", "-"))[
        "policies"
    ]
    assert list(policies) == ["reactive", "average", "oracle", "at-once"]
    for by_class in policies.values():
        assert list(by_class) == ["all", "light", "medium", "heavy"]
        assert all(set(told) >= FIGURES for told in by_class.values())
    assert policies["reactive"]["all"]["interruption_h"] == 9.0
    assert policies["average"]["heavy"]["interruption_h"] == 5.0
    assert policies["at-once"]["medium"]["overlap_h"] == 1.0
    assert policies["oracle"]["heavy"]["gap_closed"] == 1.0


def test_a_file_a_price_and_a_startup_time(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--overlap-price", "2", "--startup-time", "0:30:00", "--json", str(out))
    later = tmp_path / "later.npz"
    points = [MONDAY + (7 + i) * DAY_S for i in range(3)]
    table(OUTCOMES, start_points=points, waits_s=(600, 600)).save(later)
    answer = run("evaluate", str(made), str(later), "--policy", "at-once", *HOLD, *words)
    assert answer.code == 0, answer.err
    told = json.loads(out.read_text())
    assert told["policies"]["at-once"]["medium"]["cost_h"] == 1.0
    assert told["policies"]["at-once"]["medium"]["episodes"] == 2
    assert (told["overlap_price"], told["startup_time_s"]) == (2.0, 1800)
    assert [t["episodes"] for t in told["tables"]] == [3, 3]
    assert told["clusters"] == 1
    assert answer.err == ""
    assert answer.out.count("at-once") == 4
    assert "heavy: mean of 2 hand-overs" in answer.out


def test_a_hand_over_counts_once(made: Path, tmp_path: Path) -> None:
    assert "3 hand-overs are in more than one table" in refused(made, made)
    part = tmp_path / "part.npz"
    table(OUTCOMES[:1]).save(part)
    assert "1 hand-overs are in more than one table" in refused(made, part)


def test_tables_of_different_clusters_are_told_of(made: Path, tmp_path: Path) -> None:
    one = table(OUTCOMES)
    other = EpisodeTable(build_metadata(cluster={"name": "other"}), one._columns)
    other.save(tmp_path / "other.npz")
    answer = run("evaluate", str(made), str(tmp_path / "other.npz"), "--json", "-")
    assert "means over hand-overs of 2 different clusters (made, other)" in answer.err
    assert json.loads(answer.out)["clusters"] == 2


@pytest.mark.parametrize("more", [(), ("--intervals",)])
def test_the_names_are_whole_at_80_columns(made: Path, more: tuple[str, ...]) -> None:
    names = ("quantile", "slurm-estimate", "fixed-lead")
    answer = run("evaluate", str(made), "--policy", *names, *more, COLUMNS="80")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("reactive", "average", "oracle", *names):
        # All of them, and one class each: a light, a medium, a heavy one.
        assert sum(line.split()[:1] == [name] for line in lines) == 4
    assert "…" not in answer.out
    assert ("[" in answer.out) == bool(more)


def test_what_links_plan_by_themselves_is_judged_beside_the_policies(made: Path) -> None:
    # Jobs waited ten minutes of the twenty that a link runs: the middle instant.
    told = document(run("evaluate", str(made), "--policy", "planned-quantile", "--json", "-"))
    assert told["policies"]["planned-quantile"]["all"]["interruption_h"] == 2.5
    assert told["policies"]["planned-quantile"]["all"]["lead_h"] == pytest.approx(1 / 6)


def test_an_early_link_gives_its_nodes_back_unless_it_is_asked_to_hold_them(tmp_path: Path) -> None:
    # Released at the start it starts at once, six hours early; released later it starts in time.
    # One job in ten waited six hours, the others not at all.
    path = tmp_path / "E.npz"
    table([[-6.0] + [0.0] * 36], waits_s=(0,) * 18 + (6 * 3600,) * 2).save(path)
    words = ("evaluate", str(path), "--policy", "at-once", "switch-quantile", "planned-quantile")
    held = document(run(*words, *HOLD, "--json", "-"))["policies"]
    assert held["at-once"]["all"]["overlap_h"] == 6.0
    assert "returns" not in held["at-once"]["all"]
    assert held["planned-quantile"]["all"]["lead_h"] == 0.0
    played = document(run(*words, "--no-guard", "--json", "-"))["policies"]
    assert played["at-once"]["all"]["overlap_h"] == 0.0
    assert played["at-once"]["all"]["returns"] == 1.0
    assert played["at-once"]["all"]["cost_h"] == pytest.approx(0.05)
    assert played["at-once"]["all"]["lead_h"] == 0.0, "five minutes before the end: the last row"
    switch = played["switch-quantile"]["all"]
    assert (switch["overlap_h"], switch["returns"]) == (6.0, 0.0), "its predecessor ends for it"
    assert played["oracle"]["all"]["returns"] == 0.0
    # Early is cheap now, so the link plans six hours; max-overlap allows a quarter of the limit.
    assert played["planned-quantile"]["all"]["lead_h"] == 1.5
    assert "returns" not in run(*words, *HOLD, COLUMNS="80").out
    shown = run(*words, "--intervals", COLUMNS="80").out
    assert "returns" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert run(*words, "--returns", "10").code == run(*words, "--returns", "-1").code == 2


def test_policies_may_follow_one_option(made: Path) -> None:
    answer = run("evaluate", str(made), "--policy", "at-once", "quantile", "--json", "-")
    assert list(document(answer)["policies"])[3:] == ["at-once", "quantile"]


def test_the_plot_is_drawn(made: Path, tmp_path: Path) -> None:
    plot = str(tmp_path / "p.svg")
    answer = run("evaluate", str(made), "--policy", "at-once", *HOLD, "--plot", plot)
    assert answer.code == 0, answer.err
    drawn = ElementTree.parse(tmp_path / "p.svg").getroot()  # noqa: S314 - our own
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    words = {"".join(each.itertext()) for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"1 reactive", "2 average", "3 oracle", "4 at-once", "grey: constant leads"} <= words
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_bad_input_is_told_in_one_sentence(made: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.npz"
    foreign.write_bytes(b"PK not a zip")
    assert "no such file" in refused(tmp_path / "nowhere.npz")
    assert "no episode table" in refused(foreign)
    assert "no policy 'clever'" in refused(made, "--policy", "clever")
    assert "no model models/dqn/1" in refused(made, "--policy", "models/dqn/1")
    assert "a plot is a .svg file" in refused(made, "--plot", tmp_path / "p.png")
    assert "not a time" in refused(made, "--startup-time", "soon")
    assert "cannot be written" in refused(made, "--json", tmp_path / "none" / "o.json")


def test_no_price_is_below_nothing(made: Path) -> None:
    answer = run("evaluate", str(made), "--overlap-price", "-1")
    assert answer.code == 2
    assert "overlap-price" in answer.err


@pytest.mark.parametrize("rule", sorted(MOVES_OFTEN))
def test_rules_of_several_moves_are_refused_and_not_misjudged(made: Path, rule: str) -> None:
    for words in (("--policy", rule), ("--policy", "average", rule)):
        assert f"{rule} moves a standby several times" in refused(made, *words)
