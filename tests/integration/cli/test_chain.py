"""`mirage chain` as a process, against the real service and a real munged."""

import json
import os
import pwd
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirage.database.access.tokens import Token
from mirage.database.chains import chains
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.callers.caller import Role
from mirage.domain.chain import Chain, ChainId, ChainState, Style
from mirage.domain.chain_cause import ChainRisk, Reason, Risk, build_mirage_cause
from mirage.domain.job import JobId
from mirage.shipped_files import load_client_module
from mirage.slurm.clients.auth import munge as real_munge
from mirage.web.api.app import ApiContext
from mirage.web.identity import tokens
from tests.support import mirage_process
from tests.support.api.fixtures import context, stage, store
from tests.support.api.rows import HOUR, add_chain, add_decision, add_links
from tests.support.api.running import CHAIN, NOW, Client, Stage
from tests.support.chains import make_link
from tests.support.cli.in_process import environment, run_in_process
from tests.support.mirage_process import Answer

__all__ = ["context", "stage", "store"]

answers = load_client_module("command.directory_answers")

ME = pwd.getpwuid(os.geteuid())


def run(*words: str, url: str | None = None, **more: str) -> Answer:
    return run_in_process("chain", *words, url=url, **more)


def run_process(*words: str, url: str | None = None, **more: str) -> Answer:
    told = environment(url, **more)
    own = {name: value for name, value in told.items() if os.environ.get(name) != value}
    return mirage_process.run("chain", *words, environ=own)


@pytest.fixture
def client(stage: Stage, context: ApiContext, munge: Path) -> Iterator[Client]:
    with stage.serving(
        replace(context, identify=real_munge.authenticate_caller, admins=())
    ) as running:
        yield running


@pytest.fixture
def chain(store: Store, cluster_id: int) -> ChainId:
    """Mine, with three links and a decision."""
    mine = Chain(
        chain_id=ChainId(CHAIN), uid=ME.pw_uid, user=ME.pw_name, links_planned=8, created_at=NOW
    )
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, mine)
        add_links(tx, cluster_id)
        add_decision(tx, cluster_id)
    return mine.chain_id


def add_mine(tx: Transaction, cluster_id: int, chain_id: str, **more: Any) -> None:
    own: dict[str, Any] = {"uid": ME.pw_uid, "user": ME.pw_name, "created_at": NOW} | more
    chains.save_chain(tx, cluster_id, Chain(chain_id=ChainId(chain_id), **own))


def state(store: Store) -> ChainState:
    with store.read() as tx:
        return chains.get_chain(tx, 1, ChainId(CHAIN)).state


def test_chains_are_listed(client: Client, chain: ChainId) -> None:
    shown = run_process("list", "--url", client.url)
    assert (shown.code, shown.err) == (0, "")
    (row,) = [line for line in shown.out.splitlines() if chain in line]
    for word in (ME.pw_name, "active", "3 of 8", "103", "30 min", "1 h 0 min"):
        assert word in row


def test_ids_are_whole_on_a_narrow_terminal(client: Client, chain: ChainId) -> None:
    assert chain in run("list", url=client.url, COLUMNS="80").out


@pytest.mark.parametrize("width", [80, 100, 120])
def test_every_cell_is_whole_in_every_terminal(
    client: Client, store: Store, cluster_id: int, width: int
) -> None:
    ident, reason = "k" * 20, "a long reason " * 9 + "and its end"
    with store.begin() as tx:
        add_mine(tx, cluster_id, ident, cause=build_mirage_cause(Reason.UNRECORDED, detail=reason))
        add_links(tx, cluster_id, ident)
    listed = run("list", url=client.url, COLUMNS=str(width), PYTHONUTF8="1").out
    shown = run("show", ident, url=client.url, COLUMNS=str(width), PYTHONUTF8="1").out
    told = [line for line in listed.splitlines() if line.startswith(ident)]
    assert told == [f"{ident}: {reason}"], "a sentence of its own"
    tables = [line for line in (listed + shown).splitlines() if "┃" in line or "│ " in line[:3]]
    assert max(map(len, tables)) <= width
    assert not [line for line in tables if "…" in line]
    assert "cancelled" not in listed
    for name in ("chain", "user", "state", "links", "running"):
        assert name in listed.splitlines()[1]


def test_a_chain_goes_by_its_first_letters_and_by_the_job_that_runs(
    client: Client, chain: ChainId, store: Store, cluster_id: int
) -> None:
    for word in (chain[:3], "103"):
        shown = json.loads(run("show", word, "--json", url=client.url).out)
        assert shown["chain_id"] == chain
    with store.begin() as tx:
        add_chain(tx, cluster_id, chain[:8] + "zzzz")
    several = run("cancel", chain[:3], url=client.url)
    assert (several.code, several.err) == (
        2,
        f"mirage: the ids of 2 chains begin with {chain[:3]}: {chain}, {chain[:8]}zzzz\n",
    )
    assert state(store) == ChainState.ACTIVE
    none = run("show", "x", url=client.url)
    assert none.err == "mirage: there is no chain x: `mirage chain list` shows the chains\n"


def test_who_has_one_chain_need_not_name_it(
    client: Client, chain: ChainId, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id, "chainofbob12", "bob")
        add_mine(tx, cluster_id, "mineandover1", state=ChainState.FINISHED)
    assert chain in run("show", url=client.url).out
    assert "job 103" in run("explain", url=client.url).out
    listed = run("list", "--me", url=client.url).out
    assert chain in listed
    assert "chainofbob12" not in listed
    with store.begin() as tx:
        add_mine(tx, cluster_id, "minetoo12345")
    assert "you have 2 chains: name the one you mean" in run("show", url=client.url).err
    assert run("cancel", url=client.url).code == 2, "never by chance"


def test_an_empty_list_says_so(client: Client) -> None:
    assert run("list", url=client.url).out == "no chains\n"
    assert run("list", "--json", url=client.url).out == "[]\n"


def test_json_has_the_keys_that_it_has_without_a_service(client: Client, chain: ChainId) -> None:
    """Those are compared with the schemas in test_command_alone.py."""
    (row,) = json.loads(run("list", "--json", url=client.url).out)
    shown = json.loads(run("show", "--json", url=client.url).out)
    (decision, *_) = json.loads(run("explain", "--json", url=client.url).out)
    assert set(row) == set(answers.CHAIN)
    assert set(shown) == set(answers.CHAIN_WITH_LINKS)
    assert set(shown["links"][0]) == set(answers.LINK)
    assert set(decision) == set(answers.DECISION)


def test_lists_longer_than_a_page_come_whole(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for i in range(501):
            one = Chain(chain_id=ChainId(f"chain{i:05}"), uid=0, created_at=i)
            chains.save_chain(tx, cluster_id, one)
    assert len(json.loads(run("list", "--limit", "600", "--json", url=client.url).out)) == 501
    assert len(json.loads(run("list", "--limit", "3", "--json", url=client.url).out)) == 3


def test_a_chain_is_shown_with_the_expected_start_of_its_next_link(
    client: Client, chain: ChainId, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        links = chains.list_links(tx, cluster_id, chain)
        chains.save_link(tx, cluster_id, replace(links[-1], time_limit_s=3 * HOUR))
        standby = make_link(
            chain, 4, 104, submit=NOW, planned_start=NOW + 9 * HOUR, partition="gpu"
        )
        chains.save_link(tx, cluster_id, standby)
    served = json.loads(run("show", chain, "--json", url=client.url).out)["expected_start"]
    assert served["link"] == 4
    at, earliest, latest = (
        datetime.fromisoformat(served[key]) for key in ("at", "earliest", "latest")
    )
    assert at == datetime.fromtimestamp(NOW + 9 * HOUR, UTC)
    assert earliest < at < latest
    words = f"Link 4 is expected to start at {at.astimezone():%m-%d %H:%M} "
    assert words in run("show", chain, url=client.url, COLUMNS="120").out


def test_a_chain_is_shown_with_links_and_handovers(client: Client, chain: ChainId) -> None:
    shown = run("show", chain, url=client.url)
    assert shown.code == 0
    for word in (
        "TIMEOUT",
        "01-15 02:30",
        "30 min",
        "1 h 0 min",
        "mode shadow for this chain: Mirage",
    ):
        assert word in shown.out
    as_json = json.loads(run("show", chain, "--json", url=client.url).out)
    assert [link["job_id"] for link in as_json["links"]] == [101, 102, 103]


def test_decisions_are_explained_in_plain_words(client: Client, chain: ChainId) -> None:
    shown = run("explain", chain, url=client.url)
    assert shown.out.splitlines() == [
        "An hour of overlap costs 0.5 h of interruption "
        "(the default: nodes of two links are held).",
        "",
        "2027-01-15 08:00  link 3 (job 103), policy quantile",
        "  Freed the standby, so that it may start at once. Mirage is telling Slurm.",
        f"  Why: at {NOW}: 5 min remain, no more than the lead of 6 min.",
        "  The running link's time limit leaves 5 min.",
        "  Forecast wait if freed now: 5 min (1 min to 15 min in 8 of 10 cases), from 40 waits.",
    ]


def test_a_chain_that_nobody_registered_says_what_counts_for_it(
    client: Client, store: Store, cluster_id: int, chain: ChainId
) -> None:
    with store.begin() as tx:
        found = replace(
            chains.get_chain(tx, cluster_id, chain),
            links_planned=None,
            max_overlap_s=0,
            style=Style.SEQUENTIAL,
        )
        chains.save_chain(tx, cluster_id, found)
    for word in ("show", "explain"):
        shown = " ".join(run(word, chain, url=client.url).out.split())
        assert "Nobody registered this chain" in shown
        assert "style sequential, no overlap." in shown
    with store.begin() as tx:
        told = replace(found, max_overlap_s=1800, style=Style.SWITCH)
        chains.save_chain(tx, cluster_id, told)
    shown = " ".join(run("explain", chain, url=client.url).out.split())
    assert "style switch, an overlap of 30 min at most" in shown


def test_a_chain_at_risk_says_so_wherever_it_is_looked_at(
    client: Client, store: Store, cluster_id: int, chain: ChainId
) -> None:
    says = "link 2 (job 12) waits: an admin holds it"
    with store.begin() as tx:
        held = ChainRisk(of=Risk.HINDERED, link=2, job_id=JobId(12), detail="JobHeldAdmin")
        risky = replace(chains.get_chain(tx, cluster_id, chain), at_risk=held)
        chains.save_chain(tx, cluster_id, risky)
    for word in ("show", "explain"):
        told = " ".join(run(word, chain, url=client.url).out.split())
        assert f"At risk (JobHeldAdmin): {says}. Ask the admins why" in told
    (listed,) = json.loads(run("list", "--json", url=client.url).out)
    assert (listed["at_risk"]["reason"], listed["at_risk"]["says"]) == ("JobHeldAdmin", says)


def test_pause_resume_cancel(client: Client, store: Store, chain: ChainId) -> None:
    for word, expected in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled")):
        answer = run(word, chain, url=client.url)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith(f"chain {chain} is {expected}: ")
        assert state(store) == expected


def test_the_service_is_found_by_environment_or_file(
    client: Client, chain: ChainId, tmp_path: Path
) -> None:
    configuration = tmp_path / "client.conf"
    configuration.write_text(f"# here\nurl = '{client.url}'\n")
    assert chain in run("list", MIRAGE_URL=f"{client.url}/").out
    assert chain in run("list", MIRAGE_CLIENT_CONF=str(configuration)).out


def test_a_chain_that_is_not_mine(client: Client, store: Store, cluster_id: int) -> None:
    other = Chain(chain_id=ChainId(CHAIN), uid=ME.pw_uid + 1, user="other", created_at=NOW)
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, other)
    answer = run("cancel", CHAIN, url=client.url)
    assert (answer.code, answer.err) == (1, f"mirage: chain {CHAIN} is not {ME.pw_name}'s\n")
    assert state(store) is ChainState.ACTIVE


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nosuchchain"), 2, "there is no chain nosuchchain"),
        (("show", "../../healthz"), 2, "is not a chain's id: `mirage chain list` shows the ids"),
        (("resume", CHAIN), 1, f"chain {CHAIN} is active already; `mirage-link resume CHAIN`"),
        (("submit", "--links", "3"), 2, "nothing to submit: give sbatch's options and a script"),
        (("submit", "job.sh"), 2, "links is missing: `mirage chain submit --links 8 ...`"),
        (
            ("submit", "--style", "wait", "--links", "3", "job.sh"),
            2,
            "--links stands after --style: give --links first, then sbatch's options",
        ),
    ],
)
@pytest.mark.usefixtures("chain")
def test_errors_are_one_sentence(
    client: Client, words: tuple[str, ...], code: int, said: str
) -> None:
    answer = run(*words, MIRAGE_URL=client.url)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("mirage: ")
    assert answer.err.count("\n") == 1
    assert said in answer.err


@pytest.mark.parametrize(
    ("word", "instead"),
    [("pause", "scontrol uhold"), ("resume", "scontrol release"), ("cancel", "scancel")],
)
@pytest.mark.usefixtures("munge")
def test_without_the_service_it_says_what_does_the_same(word: str, instead: str) -> None:
    answer = run(word, CHAIN, url="http://127.0.0.1:9")
    assert answer.code == 5
    assert "no service at http://127.0.0.1:9: " in answer.err
    assert instead in answer.err
    assert answer.err.count("\n") == 1


def test_where_jobs_are_private_munge_says_who_looks(
    stage: Stage, context: ApiContext, munge: Path, chain: ChainId, store: Store, cluster_id: int
) -> None:
    other = Chain(chain_id=ChainId("otherchain1"), uid=ME.pw_uid + 1, user="other", created_at=NOW)
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, other)
    private = replace(
        context,
        identify=real_munge.authenticate_caller,
        admins=(),
        hidden=lambda: frozenset({"jobs"}),
    )
    with stage.serving(private) as client:
        shown = json.loads(run("list", "--json", "--user", ME.pw_name, url=client.url).out)
        assert [row["chain_id"] for row in shown] == [chain]
        assert run("show", "otherchain1", url=client.url).code == 2
        assert json.loads(run("list", "--json", url=f"unix://{stage.socket_path}").out) == shown


def test_a_token_of_a_file_goes_before_munge(
    client: Client, store: Store, cluster_id: int, chain: ChainId, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    asked = Token(
        name="t",
        role=Role.USER,
        user=ME.pw_name,
        uid=ME.pw_uid,
        created_at=NOW,
        created_by="root",
        expires_at=NOW + 60,
    )
    with store.begin() as tx:
        file.write_text(tokens.create_token(tx, asked, cluster_id=cluster_id)[1] + "\n")
    file.chmod(0o644)
    answer = run("pause", chain, url=client.url, MIRAGE_TOKEN_FILE=str(file))
    assert (answer.code, answer.err) == (
        2,
        f"mirage: others can read {file}: run `chmod 600 {file}`\n",
    )
    file.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert run("pause", chain, url=client.url, MIRAGE_TOKEN_FILE=str(link)).code == 2
    assert run("pause", chain, url=client.url, MIRAGE_TOKEN_FILE=str(file)).code == 0
    assert state(store) is ChainState.PAUSED


def test_an_answer_that_is_not_mirages(client: Client) -> None:
    answer = run("list", url=f"{client.url}/problems/not-found")
    assert answer.code == 2
    assert run("list", "--url", "ftp://elsewhere").err == (
        "mirage: the service's address 'ftp://elsewhere' is not valid: give "
        "https://HOST, http://HOST or unix:///PATH with --url or MIRAGE_URL\n"
    )


def test_without_munge_nothing_is_asked(client: Client, chain: ChainId, tmp_path: Path) -> None:
    script = tmp_path / "munge"
    script.write_text("#!/bin/sh\necho 'munge: Error: no socket' >&2\nexit 6\n")
    script.chmod(0o755)
    answer = run("pause", chain, url=client.url, PATH=f"{tmp_path}:/bin:/usr/bin")
    assert (answer.code, answer.err) == (
        3,
        "mirage: the command munge gave no credential: is munged running?\n",
    )


def test_submit_is_the_wrapped_sbatch(tmp_path: Path) -> None:
    """A stand-in for Slurm's own sbatch, on which the real wrapper puts a carrier."""
    real, script = tmp_path / "sbatch", tmp_path / "job.sh"
    real.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\necho "Submitted batch job 4711"\n')
    real.chmod(0o755)
    script.write_text("#!/bin/sh\nsleep 1\n")
    answer = run_process(
        *("submit", "--links", "3", "--policy", "quantile", "-p", "gpu", str(script), "--links"),
        MIRAGE_REAL_SBATCH=str(real),
        MIRAGE_URL="http://127.0.0.1:9",
        HOME=str(tmp_path),
    )
    assert (answer.code, answer.out) == (0, "Submitted batch job 4711\n")
    words = (tmp_path / "words").read_text()
    assert "-p gpu" in words
    assert "mirage:" in words
    assert words.endswith(" --links\n")
    assert "--mirage" not in words
