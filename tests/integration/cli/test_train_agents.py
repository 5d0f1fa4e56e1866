"""`mirage train` of agents as a process: from tables to a version that is in use."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from mirage.lab.training.artefact.model_card import WEIGHTS
from mirage.twin import table_forecasts
from tests.support.episodes.tables import MONDAY
from tests.support.mirage_process import MIRAGE, Answer, environment, run
from tests.support.training.queue_tables import EPISODES, add_forecasts, queue_table

AFTER = MONDAY + EPISODES * 4 * 3600 + 86400
NEWEST = AFTER + EPISODES * 4 * 3600 + 86400
WITH = ("--settings", "quick.toml", "--folds", "1", "--json")
QUICK = """
[mlp]
width = 16
[offline]
epochs = 12
warm = 4
least = 8
rate = 8e-3
blind = 0.2
[policy-gradient]
rounds = 1
envs = 32
n_steps = 16
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an agent was trained and promoted."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "quick.toml").write_text(QUICK)
    queue_table().save(folder / "E.npz")
    queue_table(seed=4, first=AFTER).save(folder / "later.npz")
    queue_table(60, seed=6, first=NEWEST).save(folder / "newest.npz")
    answer = trained(folder, "E.npz", "models/agent/1")
    assert answer.code == 0, answer.err
    assert run("models", "promote", "models/agent/1", "--force", cwd=folder).code == 0
    return folder


def trained(home: Path, table: str, out: str, *more: str) -> Answer:
    return run("train", "policy-gradient", table, "--out", out, *WITH, *more, cwd=home)


def test_its_card_tells_of_each_step_and_of_the_graph(home: Path) -> None:
    card = json.loads(run("models", "show", "models/agent/1", "--json", cwd=home).out)
    assert (card["family"], card["encoder"]) == ("policy-gradient", "mlp")
    assert card["settings"]["mlp"]["width"] == 16
    assert max(card["parity"].values()) < 1e-4
    assert {"torch", "stable-baselines3", "gymnasium"} <= set(card["versions"])
    policies = card["metrics"]["policies"]
    assert policies["policy-gradient"]["all"]["episodes"] == EPISODES / 2
    assert "policy-gradient offline" in policies
    assert not list((home / "models" / "agent").glob(".*.*"))


def test_it_is_evaluated_as_any_policy(home: Path) -> None:
    words = ("later.npz", "--policy", "models/agent/1", "--json", "-")
    answer = run("evaluate", *words, cwd=home)
    assert answer.code == 0, answer.err
    policies = json.loads(answer.out)["policies"]
    assert policies["models/agent/1"]["all"]["gap_closed"] > 0.3


def test_it_goes_on_with_newer_weeks_and_is_promoted_only_where_it_is_better(home: Path) -> None:
    on = trained(home, "later.npz", "models/agent/2", "--init", "models/agent/1")
    assert on.code == 0, on.err
    card = json.loads(run("models", "show", "models/agent/2", "--json", cwd=home).out)
    assert len(card["trained_on"]) == 2
    seen = run("models", "promote", "models/agent/2", "later.npz", cwd=home)
    assert (seen.code, "was trained on" in seen.err) == (2, True)
    answer = run("models", "promote", "models/agent/2", "newest.npz", "--json", cwd=home)
    listed = json.loads(run("models", "list", "--json", cwd=home).out)["models"]
    promoted = [line["model"] for line in listed if line["promoted"]]
    if answer.code == 0:
        told = json.loads(answer.out)
        assert told["cost_h"] < told["cost_before_h"]
    assert promoted == ["models/agent/2" if answer.code == 0 else "models/agent/1"]


def test_what_was_interrupted_goes_on_with_the_same_command(home: Path) -> None:
    out = home / "models" / "agent" / "3"
    # Behind nohup Ctrl-C is ignored, and children inherit that.
    words = ["/usr/bin/env", "--default-signal=INT", *MIRAGE, "train", "policy-gradient", "E.npz"]
    words += ["--out", "models/agent/3", *WITH, "--seed", "7"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=home, env=environment(), stdout=pipe, stderr=pipe) as child:
        while child.poll() is None and not kept(out):
            try:
                child.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        child.send_signal(signal.SIGINT)
        err = child.communicate(timeout=60)[1].decode()
    assert child.returncode == 130, err
    assert "run the same command again to go on" in err
    assert not out.exists()
    assert kept(out)
    answer = trained(home, "E.npz", "models/agent/3", "--seed", "7")
    assert answer.code == 0, answer.err
    assert (out / WEIGHTS).is_file()
    assert kept(out) == []


def test_it_learns_from_the_twin_where_all_tables_have_its_answers(home: Path) -> None:
    table = add_forecasts(queue_table())
    table.save(home / "told.npz")
    assert table.twins is not None
    table.twins.save(table_forecasts.get_twin_path(home / "told.npz"))
    answer = trained(home, "told.npz", "models/told/1")
    assert answer.code == 0, answer.err
    card = json.loads(run("models", "show", "models/told/1", "--json", cwd=home).out)
    assert card["twin"] is not None
    # It is judged with what it learned from, or not at all.
    words = ("evaluate", "later.npz", "--policy", "models/told/1", "--json", "-")
    assert "the twin cannot be asked" in run(*words, cwd=home).err
    on = trained(home, "told.npz", "models/told/2", "--init", "models/agent/1")
    assert on.code == 2
    assert "was trained without the twin: go on from it with --no-twin" in on.err


def kept(out: Path) -> list[Path]:
    return list(out.parent.glob(f".{out.name}.*/*.safetensors"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("forest", "--encoder", "mlp"), "are for agents"),
        (("forest", "--init", "models/agent/1"), "are for agents"),
        (("dqn", "--init", "models/agent/1"), "is no dqn"),
        (("policy-gradient", "--encoder", "moe", "--init", "models/agent/1"), "encoder moe"),
        (("policy-gradient", "--init", "models/agent/8"), "no model models/agent/8"),
        (("dqn", "--settings", "nowhere.toml"), "cannot be read"),
        (("dqn", "--twin"), "the twin cannot be asked"),
    ],
)
def test_bad_words_are_told_in_one_sentence(home: Path, words: tuple[str, ...], why: str) -> None:
    family, *more = words
    answer = run("train", family, "E.npz", "--out", "models/agent/9", *more, cwd=home)
    assert (answer.code, answer.out) == (2, ""), answer
    assert why in answer.err
    assert not (home / "models" / "agent" / "9").exists()


def test_weights_that_were_changed_are_refused(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "models" / "agent" / "1"
    copy.mkdir(parents=True)
    for path in (home / "models" / "agent" / "1").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    data = bytearray((copy / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (copy / WEIGHTS).write_bytes(data)
    words = ("policy-gradient", str(home / "E.npz"), "--init", "models/agent/1")
    answer = run("train", *words, "--out", "models/agent/2", cwd=tmp_path)
    assert answer.code == 2
    assert "is not the file that its card describes" in answer.err
