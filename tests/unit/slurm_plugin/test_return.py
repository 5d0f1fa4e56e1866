"""Whether an early link gives its nodes back: the rule, and what is asked of a chain."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.slurm_plugin.test_chain_options import ask, head
from tests.support.paths import DATA
from tests.support.slurm_plugin.answering import Service
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.planning import HOUR, OWN, Planning
from tests.support.slurm_plugin.prepared import PATIENTLY, prepare_program
from tests.unit.slurm_plugin.test_plan_troubles import FULL_DISK

SHARED = json.loads((DATA / "give-back-cases.json").read_text())
CASES, FIRST_LEADS = SHARED["cases"], SHARED["first_leads"]
LOOK_UPS = SHARED["look_ups"]
FIRST, SECOND = OWN, 202
CHAIN = "0f0000000000000000ab"
MINUTE = 60
NO_NUMBER = "keep --mirage-returns or max_returns in client.conf is no number of returns"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Link 1 has 23 of 24 hours left; link 2 starts as job 202, half a minute after its release."""

    planning: Planning

    def asks(
        self, env: dict[str, str] | None = None, *, first: str = PATIENTLY, **words: object
    ) -> str:
        """What the program prints, after a line of Python."""
        told = {"dir": self.planning.chain, "chain": CHAIN, "link": 2, "job": SECOND}
        told |= {"behind": FIRST, "left": 23 * HOUR, "bound": "", "style": "sequential"}
        told |= {"price": "", "lead": "", "service": "none", "returns": 2} | words
        done = subprocess.run(
            [
                *prepare_program("planner.give_back", first),
                *(f"{name}={value}" for name, value in told.items()),
            ],
            capture_output=True,
            text=True,
            check=True,
            env=self.planning.slurm.environ
            | {"MIRAGE_CLIENT_CONF": str(self.planning.conf)}
            | (env or {}),
        )
        assert done.stderr == ""
        return done.stdout

    def waited(self, wait_s: int) -> None:
        now = int(time.time())
        times = (now - wait_s, now, now + 24 * HOUR)
        self.planning.slurm.job_in_full(SECOND, "RUNNING", times=times)

    def count(self) -> str | None:
        path = self.planning.chain / "returns" / "2"
        return path.read_text().split()[0] if path.exists() else None


@pytest.fixture
def verdict(planning: Planning) -> Verdict:
    (planning.chain / "returns").mkdir(mode=0o700)
    made = Verdict(planning)
    made.waited(30)
    return made


def test_the_next_release_is_one_wait_before_the_end(verdict: Verdict) -> None:
    said = verdict.asks()
    assert said.startswith("back 1435 link 2 gives its nodes back: job 101 may run for 82")
    release = time.localtime(verdict.planning.start + 1435 * 60)
    words = "is released again at %Y-%m-%d %H:%M, by its last wait of 30 s\n"
    assert time.strftime(words, release) in said
    assert verdict.count() == "1"
    verdict.waited(HOUR)
    assert verdict.asks().startswith("back 1380 link 2")
    assert verdict.count() == "2"
    assert verdict.asks() == "keep the link has given its nodes back 2 times, of 2\n"


def test_an_early_end_of_the_release_is_never_before_now(verdict: Verdict) -> None:
    """Whole minutes after the start, and never so soon that this job may still be there."""
    verdict.waited(11 * HOUR)
    said = verdict.asks(price=5)
    minutes = int(said.split()[1])
    planning = verdict.planning
    assert planning.start + 60 * minutes >= time.time() + 300
    assert planning.end - planning.start - 60 * minutes <= 11 * HOUR // 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"price": "0"}, "s that are left, by its last wait of 30 s"),
        ({"price": "dear"}, "the chain's carrier is damaged: price='dear' is not a price"),
        ({"lead": "long"}, "the chain's carrier is damaged: lead='long' is not a number"),
        ({"left": "360"}, "the predecessor ends too soon"),
        ({"left": ""}, "the predecessor ends too soon"),
        ({"left": "-5"}, "the predecessor ends too soon"),
        ({"returns": "0"}, "the link has given its nodes back 0 times, of 0"),
        ({"returns": "-1"}, NO_NUMBER),
        ({"returns": ""}, NO_NUMBER),
        ({"max_returns": "0"}, "the link has given its nodes back 0 times, of 0"),
        ({"max_returns": "some"}, NO_NUMBER),
        ({"plans": "never"}, "plans = never in client.conf"),
        ({"plans": "nver"}, "plans = nver in client.conf"),
        ({"max_lead": "soon"}, "max_lead in client.conf is not a time"),
        ({"max_lead": "0"}, "are left for a release 0 s before the end"),
        ({"behind": "x"}, "ValueError"),
        ({"dir": "/nowhere"}, "FileNotFoundError"),
    ],
    ids=str,
)
def test_what_the_link_is_told_may_keep_it(
    verdict: Verdict, words: dict[str, Any], reason: str
) -> None:
    said = verdict.asks(**words)
    assert said.startswith("keep ")
    assert reason in said
    assert said.count("\n") == 1
    assert verdict.count() is None


@pytest.mark.parametrize("conf", ["max_returns = 0\n", "max_returns = x\n", "plans = never\n"])
def test_the_nodes_own_client_conf_counts_too(verdict: Verdict, conf: str) -> None:
    verdict.planning.conf.write_text(conf)
    assert verdict.asks(max_returns="9").startswith("keep ")


def test_more_returns_than_nine_are_nine(verdict: Verdict) -> None:
    verdict.planning.has("returns/2", "9 202 0")
    assert verdict.asks(returns=1000) == "keep the link has given its nodes back 9 times, of 9\n"


@pytest.mark.parametrize("text", ["", "x 202 0\n", "1", "-1 202 0\n", "1.5 202 0\n"])
def test_a_count_that_does_not_read_ends_all_returns(verdict: Verdict, text: str) -> None:
    (verdict.planning.chain / "returns" / "2").write_text(text)
    assert verdict.asks() == "keep returns/2 does not read\n"


def test_a_return_that_cannot_be_counted_is_none(verdict: Verdict) -> None:
    assert verdict.asks(first=FULL_DISK) == "keep returns/2 cannot be written\n"


def test_a_site_that_refused_a_plan_is_asked_for_none(verdict: Verdict) -> None:
    verdict.planning.has("unplanned", "the site refuses plans: Access denied")
    assert verdict.asks() == "keep the site refuses plans: Access denied\n"


@pytest.mark.parametrize("state", ["SUSPENDED", "COMPLETING", "PENDING", "COMPLETED"])
def test_a_predecessor_that_does_not_run_is_waited_for(verdict: Verdict, state: str) -> None:
    verdict.planning.runs(state=state)
    assert verdict.asks() == "keep the predecessor is not seen to run\n"


def test_a_predecessor_without_an_end_is_waited_for(verdict: Verdict) -> None:
    verdict.planning.runs(end="N/A")
    assert verdict.asks() == "keep the predecessor has no known end\n"


@pytest.mark.parametrize("job", [FIRST, SECOND])
def test_what_slurm_does_not_tell_keeps_the_nodes(verdict: Verdict, job: int) -> None:
    (verdict.planning.slurm.root / f"full.{job}").unlink()
    assert verdict.asks().startswith("keep ")
    assert verdict.count() is None


@pytest.mark.parametrize(
    ("comment", "dependency", "keeps"),
    [
        ("(null)", f"afterok:{SECOND}(unfulfilled)", True),
        ("of\x01two lines", f"afterok:7(unfulfilled),afterany:5:{SECOND}(unfulfilled)", True),
        ("mirage:00000000000000000000:3", f"afterany:{SECOND}(unfulfilled)", True),
        (f"mirage:{CHAIN}:3", f"afterany:{SECOND}(unfulfilled)", False),
        ("(null)", f"after:7+{SECOND}(unfulfilled)", False),
        (f"mirage:{CHAIN}:2", "(null)", True),
        (f"mirage:{CHAIN}:1", "(null)", False),
    ],
)
def test_a_job_outside_the_chain_that_waits_for_it_keeps_the_nodes(
    verdict: Verdict, comment: str, dependency: str, keeps: bool
) -> None:
    slurm = verdict.planning.slurm
    slurm.has_queued(SECOND, f"mirage:{CHAIN}:2")
    slurm.has_queued(900, comment)
    (slurm.root / "dependency.900").write_text(f"{dependency}\n")
    said = verdict.asks()
    assert said.startswith("keep " if keeps else "back ")
    assert ("900" in said) is keeps


@pytest.mark.parametrize(
    ("left_s", "took_s", "gives"),
    [
        (900, None, True),  # six minutes, where nothing is known
        (900, 5, True),
        (900, 700, False),
        (600, None, False),
        (600, 5, True),
        (600, -30, True),
        (600, -1000, False),  # no start lies after the first line
        (5000, 100000, True),  # half an hour at most
    ],
)
def test_what_giving_back_costs_is_what_this_start_took(
    verdict: Verdict, left_s: int, took_s: int | None, gives: bool
) -> None:
    now = int(time.time())
    verdict.planning.runs(end=now + left_s)
    since = "" if took_s is None else now + took_s
    said = verdict.asks(left=left_s, since=since)
    assert said.startswith("back " if gives else "keep ")


@pytest.mark.parametrize(
    ("setting", "stat", "keeps"),
    [
        ("SuspendProgram=/sbin/off\n", "cpu 1 2\nbtime {minute_ago}\n", True),
        ("suspendprogram = /sbin/off\n", "btime {hour_ago}\nprocesses 5\n", False),
        ("SuspendProgram=/sbin/off\n", "cpu 1 2\n", True),
        ("SuspendProgram=/sbin/off\n", "btime soon\n", True),
        ("#SuspendProgram=/sbin/off\n", "btime {minute_ago}\n", False),
    ],
)
def test_a_node_that_slurm_has_just_powered_up_is_kept(
    verdict: Verdict, setting: str, stat: str, keeps: bool
) -> None:
    root, now = verdict.planning.slurm.root, int(time.time())
    (root / "slurm.conf").write_text(f"ClusterName=lab\n{setting}")
    (root / "stat").write_text(stat.format(minute_ago=now - 60, hour_ago=now - HOUR))
    first = f"{PATIENTLY}; program.STAT = {str(root / 'stat')!r}"
    said = verdict.asks({"SLURM_CONF": str(root / "slurm.conf")}, first=first)
    assert said.startswith("keep Slurm powers nodes up here" if keeps else "back ")


def test_beyond_max_overlap_it_goes_whatever_the_rule_says(verdict: Verdict) -> None:
    verdict.waited(60 * HOUR)
    assert verdict.asks().startswith("keep ")
    # It may well wait so long again, so it is released as soon as it has given its nodes back.
    begun = time.time()
    verb, minutes, *_ = verdict.asks(bound=4 * HOUR).split()
    after_s = verdict.planning.start + 60 * int(minutes) - begun
    assert verb == "back"
    assert 6 * MINUTE <= after_s <= 9 * MINUTE + (time.time() - begun)


def test_an_admins_longest_lead_bounds_the_next_release(verdict: Verdict) -> None:
    verdict.waited(2 * HOUR)
    assert verdict.asks(max_lead="1:00:00").startswith(f"back {23 * 60} ")


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ({"mode": "act", "lead_s": None}, "back "),
        ({"mode": "act", "lead_s": 2 * HOUR}, "back "),
        ({"mode": "shadow"}, "keep the site's Mirage is in mode shadow"),
        ({"mode": "observe"}, "keep the site's Mirage is in mode observe"),
        ({"mode": None}, "keep the service names no lead"),
        (404, "keep the service answers 404"),
        (503, "back "),
    ],
    ids=str,
)
def test_a_site_that_only_watches_is_heeded(
    verdict: Verdict, service: Service, answer: object, word: str
) -> None:
    if isinstance(answer, dict):
        answer |= {"ask_again_s": 600, "submit_now": False}
    service.answers = [answer]
    assert verdict.asks({"MIRAGE_URL": service.url}, service="site").startswith(word)
    assert (verdict.count() is None) is word.startswith("keep")


def costs(age_s: int = 60, **changes: Any) -> dict[str, Any]:
    """What the service says of now: a release an hour before the end is never late."""
    whole = {
        "chain_id": CHAIN,
        "link": 2,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s)),
        "price": 0.5,
        "left_s": [0, HOUR, 2 * HOUR],
        "cost_s": [HOUR, 0, 0],
        "lead_s": [0, HOUR, HOUR],
    }
    return whole | changes


Hear = Callable[..., str]


@pytest.fixture
def hear(verdict: Verdict, service: Service) -> Hear:
    """What the link prints where the service answers so beside its costs."""

    def ask_service(said: object, first: str = PATIENTLY, **words: object) -> str:
        answer = {"submit_now": False, "ask_again_s": 600, "mode": "act", "lead_s": None}
        service.answers = [answer | {"return_costs": said}]
        env = {"MIRAGE_URL": service.url}
        return verdict.asks(env, first=first, service="site", **words)

    return ask_service


BY_SERVICE = "by the service's forecast\n"
BY_OWN = "by its last wait of 30 s\n"
DEAR: dict[str, Any] = {"cost_s": [100 * HOUR] * 3}
COLUMNS: list[Any] = [[0, 0], [0] * 4, [], "000", None, {}, 7]
CELLS: list[Any] = [-1, 1e300, 1 << 40, 0.5, "0", None, True, []]


def test_the_services_costs_decide(verdict: Verdict, service: Service, hear: Hear) -> None:
    said = hear(costs())
    assert said.startswith(f"back {23 * 60} link 2 gives its nodes back")
    assert said.endswith(BY_SERVICE)
    assert (verdict.planning.chain / "returns" / "2").read_text().endswith(BY_SERVICE)
    assert [path for path, _ in service.requests] == [f"/api/v1/chains/{CHAIN}/next?link=2"]


def test_the_services_costs_keep_a_link_that_would_go_by_its_own_wait(
    verdict: Verdict, hear: Hear
) -> None:
    said = hear(costs(**DEAR))
    assert said.startswith("keep a new wait costs more than the 8")
    assert said.endswith(BY_SERVICE)
    assert verdict.count() is None


def test_the_services_costs_let_a_link_go_that_would_stay_by_its_own_wait(
    verdict: Verdict, hear: Hear
) -> None:
    verdict.waited(60 * HOUR)
    assert hear(None).startswith("keep ")
    assert hear(costs()).endswith(BY_SERVICE)


def test_beyond_max_overlap_it_goes_whatever_the_service_says(hear: Hear) -> None:
    said = hear(costs(**DEAR), bound=4 * HOUR)
    assert said.startswith(f"back {20 * 60} ")
    assert said.endswith("for max-overlap\n")
    assert hear(costs(), bound=HOUR // 2).startswith(f"back {23 * 60 + 30} ")


@pytest.mark.parametrize(
    "changes",
    [
        *[{"chain_id": chain} for chain in ("00000000000000000000", None, 5)],
        *[{"link": link} for link in (1, 3, "2", None)],
        *[{"age_s": age_s} for age_s in (1300, -600)],
        *[{"made_at": at} for at in (1_700_000_000, "now", "2026-01-01", None)],
        *[{"price": price} for price in (-0.5, 1e9, float("nan"), "0.5", None, True)],
        *[{"cost_s": column} for column in COLUMNS],
        *[{"cost_s": [HOUR, cell, 0]} for cell in CELLS],
        {"cost_s": [HOUR, 0, float("inf")]},
        {"left_s": [0, 2 * HOUR, HOUR]},
        {"left_s": [-1, HOUR, 2 * HOUR]},
        {"lead_s": [0, HOUR, 3 * HOUR]},
        {"lead_s": [-HOUR, HOUR, HOUR]},
        {"left_s": [], "cost_s": [], "lead_s": []},
    ],
    ids=repr,
)
def test_costs_that_are_not_whole_or_not_of_this_link_or_not_of_now_do_not_count(
    plugin: Callable[[str], Any], changes: dict[str, Any]
) -> None:
    read_costs = plugin("mirage_slurm.planner.give_back").read_costs
    link = SimpleNamespace(chain=CHAIN, index=2, now=int(time.time()))
    points = [(0, HOUR, 0), (HOUR, 0, HOUR), (2 * HOUR, 0, HOUR)]
    assert read_costs(costs(), link) == (points, 0.5)
    assert read_costs(costs(**changes), link) is None


@pytest.mark.parametrize(
    "name", ["chain_id", "link", "made_at", "price", "left_s", "cost_s", "lead_s"]
)
def test_costs_without_a_part_do_not_count(plugin: Callable[[str], Any], name: str) -> None:
    torn = costs()
    del torn[name]
    link = SimpleNamespace(chain=CHAIN, index=2, now=int(time.time()))
    assert plugin("mirage_slurm.planner.give_back").read_costs(torn, link) is None


@pytest.mark.parametrize(
    "said", [None, [[]], "soon", 5, {"left_s": [0]}, {"cost_s": [-1] * 3}], ids=repr
)
def test_where_the_services_costs_do_not_count_the_links_own_wait_decides(
    hear: Hear, said: object
) -> None:
    answer = hear(costs(**said) if isinstance(said, dict) else said)
    assert answer.startswith("back 1435 ")
    assert answer.endswith(BY_OWN)


@pytest.mark.parametrize("bound", [0, -1, 1.5, "2", True, 1 << 99], ids=repr)
def test_the_services_bound_on_returns_holds_until_the_service_names_another(
    verdict: Verdict, service: Service, bound: object
) -> None:
    service.answers = [{"ask_again_s": 600, "mode": "act", "max_returns": bound}]
    assert verdict.asks({"MIRAGE_URL": service.url}, service="site").startswith("keep ")
    assert verdict.asks(service="site").startswith("keep "), "no service answers"
    assert verdict.count() is None
    service.answers = [{"ask_again_s": 600, "mode": "act"}]
    assert verdict.asks({"MIRAGE_URL": service.url}, service="site").startswith("back ")
    assert not (verdict.planning.chain / "told_returns").exists()


@pytest.mark.parametrize("mode", ["shadow", "observe"])
def test_costs_do_not_count_where_the_site_only_watches(
    verdict: Verdict, service: Service, mode: str
) -> None:
    service.answers = [{"ask_again_s": 600, "mode": mode, "return_costs": costs()}]
    said = verdict.asks({"MIRAGE_URL": service.url}, service="site")
    assert said == f"keep the site's Mirage is in mode {mode}\n"


def test_costs_do_not_count_where_nobody_vouches_for_the_service(
    service: Service, hear: Hear
) -> None:
    """Anybody on the way may have written them."""
    stranger = (
        "from mirage_slurm.client import service; service._to_local_address = lambda packed: b''"
    )
    said = hear(costs(), first=f"{PATIENTLY}; {stranger}")
    assert said.endswith(BY_OWN)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"returns": "0"}, "the link has given its nodes back 0 times, of 0"),
        ({"max_returns": "0"}, "the link has given its nodes back 0 times, of 0"),
        ({"plans": "never"}, "plans = never in client.conf"),
        ({"left": "360"}, "the predecessor ends too soon"),
        ({"max_lead": "0"}, "are left for a release 0 s before the end"),
    ],
    ids=str,
)
def test_whatever_the_services_costs_are_each_guard_holds(
    verdict: Verdict, hear: Hear, words: dict[str, Any], reason: str
) -> None:
    said = hear(costs(), **words)
    assert said.startswith("keep ")
    assert reason in said
    assert verdict.count() is None


@pytest.mark.parametrize("state", ["SUSPENDED", "COMPLETING", "PENDING", "COMPLETED"])
def test_whatever_the_services_costs_are_a_predecessor_that_does_not_run_is_waited_for(
    verdict: Verdict, hear: Hear, state: str
) -> None:
    verdict.planning.runs(state=state)
    assert hear(costs()) == "keep the predecessor is not seen to run\n"


def test_a_service_that_answers_in_drops_is_none(verdict: Verdict) -> None:
    """Each drop comes in time, the answer does not."""
    first = "from mirage_slurm.client import request; request.LIMIT_S = 0.5"
    with dripping() as url:
        said = verdict.asks({"MIRAGE_URL": url}, service="site", first=first)
    assert said.endswith(BY_OWN)


@contextmanager
def dripping() -> Iterator[str]:
    """The URL of a service whose answer never ends."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip(stream: socket.socket) -> None:
            with stream, suppress(OSError):
                stream.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                while not over.wait(0.05):
                    stream.sendall(b" ")

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=(server.accept()[0],)).start()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        over.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(("age_s", "word"), [(HOUR, "keep the site's"), (25 * HOUR, "back ")])
def test_a_links_last_word_from_the_service_counts_for_a_day(
    verdict: Verdict, age_s: int, word: str
) -> None:
    verdict.planning.has("told_mode", f"shadow {int(time.time()) - age_s}")
    assert verdict.asks(service="site").startswith(word)


def test_a_link_without_a_service_gives_back_by_its_own_rule(verdict: Verdict) -> None:
    assert verdict.asks(service="site").startswith("back ")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_the_links_rule_is_the_services(plugin: Callable[[str], Any], case: dict[str, Any]) -> None:
    choose_lead = plugin("mirage_slurm.planner.lead_rules").choose_return_lead
    numbers = [case[name] for name in ("left_s", "waited_s", "price", "back_s")]
    assert choose_lead(*numbers) == case["lead_s"]


@pytest.mark.parametrize("case", LOOK_UPS, ids=lambda case: case["why"])
def test_the_links_look_up_is_the_services(
    plugin: Callable[[str], Any], case: dict[str, Any]
) -> None:
    look_up = plugin("mirage_slurm.planner.lead_rules").look_up_return_lead
    lead_s = look_up(case["points"], case["left_s"], case["price"], case["back_s"])
    assert lead_s == case["lead_s"]


@pytest.mark.parametrize("case", FIRST_LEADS, ids=lambda case: case["why"])
def test_the_links_first_lead_is_the_services(
    plugin: Callable[[str], Any], case: dict[str, Any]
) -> None:
    choose_first_lead = plugin("mirage_slurm.planner.lead_rules").choose_first_lead
    assert choose_first_lead(case["waits_s"], case["price"]) == case["lead_s"]


@pytest.mark.parametrize(
    ("words", "lines", "returns"),
    [
        (["--mail-type=END"], "", "0"),
        (["--mail-type", "begin,end"], "", "0"),
        (["--mail-type=BEGIN"], "#SBATCH --mail-type=ALL\n", "0"),
        (["--mail-type=FAIL,TIME_LIMIT"], "", "2"),
        ([], "#PBS -m abe\n", "0"),
        ([], "#PBS -l walltime=1:00\n", "2"),
        (["--bb=capacity=1G"], "", "0"),
        (["--reboot"], "", "0"),
        ([], "#DW jobdw type=scratch capacity=1GB\n", "0"),
        ([], "#BB create_persistent\n", "0"),
        ([], "#BBQ is none\n", "2"),
        (["--mirage-returns=5", "--mail-type=END"], "", "0"),
    ],
)
def test_a_link_whose_jobs_cost_more_than_nodes_gives_nothing_back(
    slurm: FakeSlurm, words: list[str], lines: str, returns: str
) -> None:
    ask(slurm, "--mirage-chain=2", *words, lines=lines)
    assert head(slurm)["returns"] == returns


def test_the_admins_bound_on_returns_travels_with_the_chain(slurm: FakeSlurm) -> None:
    conf = slurm.root / "client.conf"
    conf.write_text("max_returns = 1\n")
    ask(slurm, "--mirage-chain=2", env={"MIRAGE_CLIENT_CONF": str(conf)})
    assert "mirage_max_returns='1'\n" in slurm.calls()[-1].script.decode()
