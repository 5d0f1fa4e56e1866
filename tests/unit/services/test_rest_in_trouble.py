"""Mode submit through a slurmrestd in trouble: nothing is lost, nothing is submitted twice."""

import pwd
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mirage.cluster.rest.client import Slurmrestd
from mirage.cluster.rest.http import RestHttp
from mirage.cluster.rest.token import RestToken, parse_token
from mirage.domain.chain import ChainMode
from mirage.domain.job import Job
from mirage.domain.submission import Recipe
from mirage.services.chains import lifecycle as chain_service
from mirage.services.chains.lifecycle import Registration
from mirage.services.chains.rest_submission import build_submitter
from mirage.services.provision.decision_context import Rules
from mirage.store.chains import decisions
from mirage.store.chains.decisions import Effect
from mirage.store.database.engine import Store
from tests.support.cluster.restd import FakeRestd
from tests.support.cluster.restd import serving_restd as serving
from tests.support.cluster.tokens import jwt
from tests.support.patient import PATIENCE_S
from tests.support.services.scene import Always
from tests.support.services.slurm_jobs import CHAIN, HOUR, NOW, job, running
from tests.unit.services.test_submit_instruction import asked, tick

SUBMIT = "/slurm/v0.0.38/job/submit"
OWNER = pwd.getpwnam("nobody")
MINE: dict[str, Any] = {"uid": OWNER.pw_uid, "user": "nobody"}
RECIPE = Recipe(carrier="/home/x/c/job.sh", directory="/home/x", name="job.sh")


@dataclass
class Site:
    """The service of a chain whose first link runs, and the slurmrestd that it goes through."""

    store: Store
    restd: FakeRestd
    tokens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wait_for_answers(PATIENCE_S)

    def wait_for_answers(self, timeout_s: float) -> None:
        http = RestHttp(self.restd.url, timeout_s=timeout_s)
        submit = build_submitter(self.store, 1, Slurmrestd(http, user_token=self.token).submit_job)
        self.rules = Rules(policy=Always, default="always", submit=submit)

    def token(self, user: str) -> RestToken:
        self.tokens.append(jwt(user, time.time() + 1800))
        return parse_token(self.tokens[-1])

    def tick(self, *jobs: Job, now: int = NOW) -> tuple[Effect, str]:
        """What became of the last decision."""
        tick(self.store, running(1, **MINE), *jobs, now=now, rules=self.rules)
        with self.store.read() as tx:
            last = decisions.find_last_decision(tx, 1, CHAIN, 2)
        assert last is not None
        return last.effect, last.error


@pytest.fixture
def site(acting_store: Store, tmp_path: Path) -> Iterator[Site]:
    with acting_store.begin() as tx:
        new = Registration(chain_id=CHAIN, links=3, mode=ChainMode.SUBMIT, recipe=RECIPE)
        chain_service.register_chain(tx, 1, new, **MINE, now=NOW - HOUR)
    restd = FakeRestd(tmp_path)
    with serving(restd):
        yield Site(acting_store, restd)


FINE = {"errors": [], "job_id": 12}
FAILED = {"errors": [{"error_number": -1, "error": "Unspecified error"}]}
TROUBLE: dict[str, dict[str, Any]] = {
    "slow": {"body": FINE, "seconds": 1.0},
    "dripping": {"body": FINE, "drip_s": 0.1},
    "cut off": {"body": FINE, "cut": 5},
    "no JSON": {"body": "<html>502</html>", "status": 502},
    "no job": {"body": {"errors": []}},
    "without slurmctld": {"body": FAILED, "status": 500},
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_without_an_answer_the_link_may_do_it_and_the_service_does_it_once(
    site: Site, trouble: str
) -> None:
    site.restd.answers(SUBMIT, **TROUBLE[trouble])
    if trouble in {"slow", "dripping"}:
        site.wait_for_answers(0.3)
    effect, error = site.tick()
    assert (effect, error != "") == (Effect.INTENDED, True)
    assert asked(site.store).submit_now
    site.tick(now=NOW + 60)
    assert len(site.restd.calls(SUBMIT)) == 1
    # It had been taken all the same: the queue tells.
    taken = job(2, submit=NOW + 1, **MINE)
    assert site.tick(taken, now=NOW + 120)[0] is Effect.DONE
    assert not asked(site.store).submit_now


def test_a_job_that_slurmrestd_does_not_understand_is_the_links(site: Site) -> None:
    wrong = {"error_number": 9202, "error": "Failure during parsing"}
    site.restd.answers(SUBMIT, {"errors": [wrong]}, status=400)
    assert site.tick() == (Effect.INTENDED, "")
    assert asked(site.store).submit_now


def test_a_no_of_slurm_is_told_and_its_token_is_not_kept(site: Site, tmp_path: Path) -> None:
    site.restd.answers(
        SUBMIT, {"errors": [{"error_number": 2000, "error": "Invalid partition"}]}, status=500
    )
    effect, error = site.tick()
    assert (effect, "Invalid partition" in error) == (Effect.REFUSED, True)
    (token,) = site.tokens
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("mirage.db*"))
    assert b"job.sh" in kept
    assert token.encode() not in kept
