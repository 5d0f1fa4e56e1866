"""What one user may cost the others, over HTTP: 429, when to ask again, and others go on."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from mirage.chains.lifecycle import MAX_UNSEEN_CHAINS
from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller
from mirage.domain.chain import ChainId
from mirage.domain.job import JobId
from mirage.slurm.clients.host_accounts import build_caller
from mirage.web.api.app import create_app
from mirage.web.identity.quotas import Quotas
from mirage.web.pages.app import mount_pages
from mirage.web.shared import quota
from mirage.web.shared.context import ApiContext
from tests.integration.web.api.test_identity import bearer, token
from tests.support.api.rows import HOUR, add_chain, look, read_running_job
from tests.support.api.running import CHAIN, NOW, USERS, Client, Stage
from tests.unit.web.api.test_forecasts import PATH as FORECASTS
from tests.unit.web.identity.test_quotas import Stopwatch

pytestmark = pytest.mark.usefixtures("chain_with_links")

API = "/api/v1"
SHAPE: dict[str, Any] = {"partition": "gpu", "nodes": 1, "time_limit_s": 12 * HOUR}
PAUSE, RESUME = f"{API}/chains/{CHAIN}/pause", f"{API}/chains/{CHAIN}/resume"


@pytest.fixture
def clock() -> Stopwatch:
    return Stopwatch()


@contextmanager
def serving(stage: Stage, context: ApiContext, clock: Stopwatch, **quotas: int) -> Iterator[Client]:
    told = replace(context, stopwatch=clock, quotas=Quotas(**quotas), pushers=("slurm", "carol"))
    with stage.serving(told) as client:
        yield client


def new(number: int) -> bytes:
    said = {"chain_id": f"alices{number:06}", "job_id": 200 + number, "links": 2}
    return json.dumps(said).encode()


def assert_told(answer: httpx.Response, again_s: int) -> str:
    """That it was too much, and when to ask again."""
    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/too-many")
    assert answer.headers["retry-after"] == str(again_s)
    return str(answer.json()["detail"])


def test_who_changes_things_without_end_is_told_when_to_go_on(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    with serving(stage, context, clock, writes_burst=4, writes_per_minute=6) as client:
        paths = [PAUSE, RESUME] * 3
        answers = [client.post(path, who="alice") for path in paths]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
        assert "quota.writes_per_minute" in assert_told(answers[-1], 10)
        assert client.post(RESUME, who="bob").status_code == 403, "bob has his own"
        assert client.post(PAUSE, who="root").status_code == 200
        assert client.get(f"{API}/chains/{CHAIN}", who="alice").status_code == 200, (
            "reading is free"
        )
        clock.at += 10
        answers = [client.post(RESUME, who="alice") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
    with store.read() as tx:
        assert (
            len([row for row in audit.list_entries(tx, context.cluster_id) if row.actor == "alice"])
            == 5
        )


def test_it_is_counted_by_uid_whatever_the_credential(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    cluster_id = context.cluster_id
    first, second = token(store, cluster_id), token(store, cluster_id)
    bobs = token(store, cluster_id, user="bob", uid=USERS["bob"])
    with serving(stage, context, clock, writes_burst=2) as client:
        assert bearer(client, "POST", PAUSE, first).status_code == 200
        assert bearer(client, "POST", RESUME, second).status_code == 200
        assert client.post(PAUSE, who="alice").status_code == 429
        assert bearer(client, "POST", PAUSE, first).status_code == 429
        assert bearer(client, "POST", PAUSE, bobs).status_code == 403


def vouched(credential: str, _payload: str, *_older: str) -> Caller:
    """For the uid that is the credential, as munged vouches."""
    return build_caller(int(credential))


def test_uids_without_an_account_are_one_caller_until_slurm_shows_a_job(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    """One user may have thousands of them (subuid(5)); a container knows no account of any user."""
    strangers = [1_999_000_001, 1_999_000_002, 1_999_000_003]
    with serving(stage, replace(context, identify=vouched), clock, writes_burst=2) as client:

        def pauses(uid: int) -> int:
            header = {"Authorization": f"MUNGE {uid}"}
            return client.post(PAUSE, headers=header).status_code

        assert [pauses(uid) for uid in strangers] == [403, 403, 429]
        with store.begin() as tx:
            add_chain(tx, context.cluster_id, "theirs1234", uid=strangers[2])
        assert pauses(strangers[2]) == 429, "registered, and no job shown"
        with store.begin() as tx:
            link = chains.list_links(tx, context.cluster_id, ChainId(CHAIN))[-1]
            theirs = replace(link, chain_id=ChainId("theirs1234"), job_id=JobId(900))
            chains.save_link(tx, context.cluster_id, theirs)
        assert [pauses(uid) for uid in strangers[1:]] == [429, 403]


def test_refusals_of_uids_without_an_account_are_written_as_ones_are(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    """So that they do not use up what is written of all whom somebody vouches for."""
    with serving(stage, replace(context, identify=vouched), clock) as client:
        for uid in range(1_999_000_000, 1_999_000_030):
            client.post(PAUSE, headers={"Authorization": f"MUNGE {uid}"})
    with store.read() as tx:
        assert (
            len(
                [
                    row
                    for row in audit.list_entries(tx, context.cluster_id, limit=100)
                    if "uid 1999" in row.actor
                ]
            )
            == 20
        )


def test_what_is_refused_is_counted_too(
    stage: Stage, context: ApiContext, clock: Stopwatch
) -> None:
    with serving(stage, context, clock, writes_burst=3) as client:
        statuses = [client.post(PAUSE, who="bob").status_code for _ in range(5)]
        assert statuses == [403, 403, 403, 429, 429]


def test_slurmctld_and_admins_are_not_held_up(
    stage: Stage, context: ApiContext, clock: Stopwatch
) -> None:
    with serving(stage, context, clock, writes_burst=1) as client:
        ended = f"{API}/completions"
        answers = [client.post(ended, b'{"job_id": 103}', who="carol") for _ in range(5)]
        answers += [client.post(f"{API}/kill", who="root") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [202] * 5 + [200] * 5


def test_a_script_that_submits_a_hundred_chains_is_not_held_up(
    stage: Stage, context: ApiContext, clock: Stopwatch
) -> None:
    """As the wrapped sbatch registers them, faster than anybody submits: with what the package has
    by default. The 101st that Slurm has not shown is told why."""
    with serving(stage, context, clock) as client:
        for number in range(MAX_UNSEEN_CHAINS):
            headers = {"Idempotency-Key": f"alices{number:06}"}
            answer = client.post(f"{API}/chains", new(number), who="alice", headers=headers)
            assert answer.status_code == 201, answer.text
        answer = client.post(f"{API}/chains", new(MAX_UNSEEN_CHAINS), who="alice")
        assert (answer.status_code, "have no job in Slurm yet" in answer.text) == (429, True)


def test_a_user_registers_so_many_chains_a_day(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    with serving(stage, context, clock, registrations_per_day=3) as client:
        # One is of ten hours ago: it leaves the day first.
        answers = [client.post(f"{API}/chains", new(number), who="alice") for number in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 429]
        said = assert_told(answers[-1], 14 * HOUR)
        assert "quota.registrations_per_day" in said
        assert "or Mirage manages it without its settings" in said
        assert len(said) <= 200, "the wrapped sbatch shows no more of it"
        assert client.post(f"{API}/chains", new(1), who="alice").status_code == 201, "known already"
        assert client.post(f"{API}/chains", new(7), who="bob").status_code == 201
    tomorrow = replace(context, clock=lambda: NOW + 14 * HOUR)
    with serving(stage, tomorrow, clock, registrations_per_day=3) as client:
        assert client.post(f"{API}/chains", new(2), who="alice").status_code == 201
    with store.read() as tx:
        assert len(chains.list_chains(tx, context.cluster_id, user="alice")) == 4


def test_forecasts_are_looked_at_so_often_a_minute(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    started = {"submit": NOW - 20 * HOUR, "eligible": NOW - 9 * HOUR - 600}
    look(store, context.cluster_id, *(read_running_job(200 + i, **started) for i in range(30)))
    with serving(stage, context, clock, forecasts_per_minute=3) as client:

        def statuses(who: str | None, times: int) -> list[int]:
            return [client.get(FORECASTS, who=who, **SHAPE).status_code for _ in range(times)]

        assert statuses("alice", 4) == [200, 200, 200, 429]
        assert statuses("bob", 1) == [200]
        of_address = statuses(None, 3 * quota.USERS_PER_ADDRESS + 1)
        assert of_address == [200] * 3 * quota.USERS_PER_ADDRESS + [429]
        assert_told(client.get(FORECASTS, who="alice", **SHAPE), 20)
        clock.at += 20
        assert statuses("alice", 2) == [200, 429]


def test_one_user_does_not_take_all_questions_to_the_twin(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    look(store, context.cluster_id, read_running_job(201))

    def ask(client: Client, who: str, hours: int) -> httpx.Response:
        body = json.dumps(SHAPE | {"time_limit_s": hours * HOUR}).encode()
        return client.post(FORECASTS, body, who=who)

    with serving(stage, context, clock, forecasts_asked=2) as client:
        answers = [ask(client, "alice", hours) for hours in (1, 2, 2, 3)]
        assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
        assert "quota.forecasts_asked" in assert_told(answers[-1], 1801)
        assert ask(client, "bob", 3).status_code == 202
    later = replace(context, clock=lambda: NOW + 1801)
    with serving(stage, later, clock, forecasts_asked=2) as client:
        assert ask(client, "alice", 3).status_code == 202


def test_who_asks_for_what_is_so_already_changes_nothing(
    client: Client, store: Store, cluster_id: int
) -> None:
    """A thousand times: no row of the audit, no notice and no change more than once."""
    counted = "SELECT count(*) FROM changes"
    for verb, state in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled")):
        first = client.post(f"{API}/chains/{CHAIN}/{verb}", who="alice")
        with store.read() as tx:
            before = audit.list_entries(tx, cluster_id), tx.exec_driver_sql(counted).scalar()
            stored = chains.get_chain(tx, 1, ChainId(CHAIN))
        again = client.post(f"{API}/chains/{CHAIN}/{verb}", who="alice")
        by_admin = client.post(f"{API}/chains/{CHAIN}/{verb}", who="root")
        assert first.json()["state"] == state
        assert first.json() == again.json() == by_admin.json()
        with store.read() as tx:
            after = audit.list_entries(tx, cluster_id), tx.exec_driver_sql(counted).scalar()
            assert after == before
            assert chains.get_chain(tx, 1, ChainId(CHAIN)) == stored


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::2:3", "2001:db8::/64"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_is_what_one_host_has(host: str, counted: str) -> None:
    """Whoever has a network of IPv6 has 2^64 addresses."""
    assert quota.get_client_address(Request({"type": "http", "client": (host, 5000)})) == counted


def test_sessions_are_begun_at_a_bounded_rate(
    stage: Stage, context: ApiContext, store: Store, clock: Stopwatch
) -> None:
    shown = token(store, context.cluster_id)
    app = create_app(replace(context, stopwatch=clock, quotas=Quotas(writes_burst=2)))
    mount_pages(app)
    ours = {"Sec-Fetch-Site": "same-origin"}
    with stage.serve_app(app) as client:
        answers = [
            client.raw("POST", "/login", data={"token": shown}, headers=ours) for _ in range(4)
        ]
    assert [answer.status_code for answer in answers] == [303, 303, 429, 429]
    with store.read() as tx:
        assert len(audit.list_entries(tx, context.cluster_id, event="session begun")) == 2


def test_a_false_token_does_not_wait_for_who_writes(
    stage: Stage, context: ApiContext, store: Store
) -> None:
    """Nor does it hold them up: a writer has SQLite's one lock while it is looked at."""
    app = create_app(context)
    mount_pages(app)
    ours = {"Sec-Fetch-Site": "same-origin"}
    with stage.serve_app(app) as client:
        for _ in range(25):  # all that is written of one address
            client.raw("POST", "/login", data={"token": "mirage_x"}, headers=ours)
        with closing(Store(f"sqlite:///{_file(store)}")) as other, other.begin():
            answer = client.raw("POST", "/login", data={"token": "mirage_x"}, headers=ours)
            assert answer.status_code == 401
            answer = client.raw("POST", "/logout", headers=ours | {"Cookie": "mirage_session=x"})
            assert answer.status_code == 303


def _file(store: Store) -> str:
    with store.read() as tx:
        return str(tx.exec_driver_sql("PRAGMA database_list").one()[2])
