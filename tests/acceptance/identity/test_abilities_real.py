"""What `mirage doctor` finds out on a real Slurm, and that nothing comes of its trying."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.identity.site import Site

pytestmark = pytest.mark.slurm

MOVES = ("free", "pin", "hold")


def doctor(site: Site, user: str) -> dict[str, tuple[str, str]]:
    words = ("doctor", "--user", "--json") if user != "mirage" else ("doctor", "--json")
    done = site.mirage(*words, user=user, check=False, MIRAGE_URL="")
    findings = json.loads(done.stdout)["findings"]
    return {f["what"]: (f["verdict"], f["told"]) for f in findings}


def jobs(site: Site) -> set[str]:
    shown = site.testbed.run(["squeue", "-h", "-t", "pending,running", "-o", "%i"]).stdout
    return set(shown.split())


def test_an_operator_may_move_everybodys_jobs(site: Site) -> None:
    before = jobs(site)
    found = doctor(site, "mirage")
    for move in MOVES:
        assert found[f"may {move}"] == ("good", "of everybody's jobs (Operator)")
    assert found["may queue"] == ("good", "of everybody's jobs")
    assert found["may sacct"][0] == found["may submit"][0] == "good"
    assert "a key that can forge a token of any user" in found["identity"][1]
    what = {"munge": "MUNGE works", "slurm": "Slurm's own socket works"}[site.settings.auth]
    row = {"munge": "MUNGE", "slurm": "SACK"}[site.settings.auth]
    assert found[row] == ("good", f"{what}, and identifies mirage")
    assert jobs(site) == before


@pytest.mark.parametrize(
    ("user", "whose"),
    [
        ("bob", "of one's own jobs, not of others' (neither Operator nor coordinator)"),
        ("carol", "of the jobs of research (coordinator) and one's own, not of others'"),
    ],
)
def test_a_user_may_move_their_own_and_a_coordinator_the_accounts(
    site: Site, user: str, whose: str
) -> None:
    before = jobs(site)
    found = doctor(site, user)
    for move in MOVES:
        assert found[f"may {move}"] == ("good", whose)
    assert "partial" in found["may queue"][1]
    assert found["may submit"][0] == "good"
    assert jobs(site) == before
    trial = ["squeue", "-h", "-t", "all", "-u", user, "-n", "mirage-doctor", "-o", "%T %M"]
    assert site.testbed.run(trial).stdout.splitlines() == ["CANCELLED 0:00"], "it never ran"


def test_who_has_no_account_may_nothing(site: Site) -> None:
    """`nobody` of Unix has no association in Slurm."""
    (site.root / "nobody").mkdir(exist_ok=True)
    shutil.chown(site.root / "nobody", "nobody")
    found = doctor(site, "nobody")
    assert found["may submit"][0] == "warning"
    assert "Invalid account" in found["may submit"][1]
    assert found["may free"][0] == "warning"


@pytest.fixture
def close_partition(site: Site) -> Iterator[Callable[[], None]]:
    """A function after which jobs are accepted, and none starts; open again after the test."""

    def set_state(state: str) -> None:
        site.testbed.run(["scontrol", "update", "PartitionName=gpu", f"State={state}"])

    yield lambda: set_state("DOWN")
    set_state("UP")


def test_the_next_link_is_put_in_the_queue_by_its_owner_alone(
    site: Site, close_partition: Callable[[], None]
) -> None:
    """Of a chain of mode submit, before the running link submits it."""
    link = site.root / "slurm_plugin" / "mirage-link"
    home = {"HOME": "/home/alice", "MIRAGE_STATE_DIR": ""}
    chain_id = site.submit_chain("alice", "--mirage-mode=submit", **home)

    def jobs_of() -> list[int]:
        return sorted(site.chain_jobs(chain_id))

    started = Path("/home/alice/.local/state/mirage") / chain_id / "started" / "1"
    site.testbed.wait_until(started.exists, 20, "the first link to start")
    assert len(jobs_of()) == 1, "nothing stands"
    # A second link that starts beside the first submits itself again: a third job, rightly.
    close_partition()
    words = [str(link), "next", chain_id]
    done = site.testbed.run(words, user="alice", env=home)
    assert done.stdout.startswith("link 2\tjob ")
    first, second = jobs_of()
    assert site.chain_jobs(chain_id)[second] == "alice"
    shown = site.testbed.job(second)
    assert (shown["UserId"].partition("(")[0], shown["Dependency"]) == ("alice", "(null)")
    again = site.testbed.run(words, user="alice", env=home, check=False)
    assert jobs_of() == [first, second], again.stdout
    refused = site.testbed.run(words, user="bob", env={"HOME": "/home/bob"}, check=False)
    assert (refused.returncode, "no chain of yours" in refused.stderr) == (1, True)
    site.testbed.run(["scancel", *map(str, jobs_of())])
