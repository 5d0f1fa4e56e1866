"""`mirage serve --user` on a real Slurm: no privilege, nobody else's jobs, and Mirage acts."""

import json
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.identity.site import Site, end
from tests.support.log_lines import read_whole_lines

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def own(site: Site, chains: dict[str, str]) -> Iterator[Path]:
    """alice's, with a policy that frees at once; returns its state directory. The site's own
    service only looks, as it does from its installation on."""
    home = site.root / "alice"
    (home / ".config" / "mirage").mkdir(parents=True)
    (home / ".config" / "mirage" / "mirage.toml").write_text(
        'log_format = "json"\n[polling]\nqueue_s = 1\n'
        '[provision]\npolicy = "at-once"\n'
        # What a user's own service does not take from its file.
        '[service]\nhost = "0.0.0.0"\nadmins = ["bob"]\nstate_dir = "/nowhere"\n'
    )
    shutil.chown(home / ".config", "alice")
    state = home / ".local" / "state" / "mirage" / "service"
    with (site.root / "own.log").open("w") as log:
        process = site.popen("serve", "--user", user="alice", log=log, MIRAGE_URL="")
    try:
        ready = [*("curl", "-sf", "--unix-socket"), str(state / "socket"), "http://x/readyz"]
        site.testbed.wait_until(
            lambda: site.run(ready, user="alice", check=False).returncode == 0,
            30,
            "alice's service",
        )
        yield state
    finally:
        end(process)
    assert not (state / "socket").exists()
    assert not (state / "url").exists()


@pytest.fixture(scope="module")
def mine(site: Site, own: Path) -> str:
    """A chain of alice's that the wrapped sbatch told her own service of, and no other."""
    words = ("--mirage-style=concurrent", "--mirage-max-overlap=30:00")
    chain_id = site.submit_chain("alice", *words, MIRAGE_URL=(own / "url").read_text().strip())
    site.testbed.wait_until(
        lambda: len(shown(site, own, chain_id).get("links", [])) == 2, 30, "two links of it"
    )
    return chain_id


def shown(site: Site, own: Path, chain_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(curl(site, own, "alice", f"/chains/{chain_id}").stdout)
    return answer


def curl(site: Site, own: Path, user: str, path: str) -> subprocess.CompletedProcess[str]:
    words = ["curl", "-s", "--unix-socket", str(own / "socket"), f"http://x/api/v1{path}"]
    return site.testbed.run(words, user=user, check=False)


def test_it_takes_name_and_shape_of_the_cluster_from_slurm(site: Site, own: Path) -> None:
    """alice's file has no table [cluster]."""
    known = tomllib.loads((own / "cluster.toml").read_text())
    shown = site.run(["scontrol", "show", "config"], user="alice").stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("ClusterName "))
    name = line.partition("=")[2].strip()
    assert (known["cluster"]["name"], known["cluster"]["nodes"] > 0) == (name, True)
    assert json.loads(curl(site, own, "alice", "/cluster").stdout)["name"] == name


def test_it_is_closed_to_others(site: Site, own: Path) -> None:
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) & 0o077 for p in own.iterdir()} == {0}
    assert curl(site, own, "bob", "/chains").returncode != 0
    assert curl(site, own, "alice", "/chains").returncode == 0
    # root passes every mode; the kernel says who it is, and it is not alice.
    assert json.loads(curl(site, own, "root", "/chains").stdout)["status"] == 403
    url = (own / "url").read_text().strip()
    assert url == f"unix://{own}/socket"
    done = site.mirage("chain", "list", user="bob", check=False, MIRAGE_URL=url)
    assert f"no service at {url}: [Errno 13] Permission denied" in done.stderr
    lines = map(json.loads, read_whole_lines(site.root / "own.log"))
    port = next(line["url"] for line in lines if line["event"] == "serving")
    done = site.mirage("chain", "list", user="bob", check=False, MIRAGE_URL=port)
    assert "is held by alice (uid" in done.stderr
    assert "who is neither root nor mirage nor you" in done.stderr
    assert site.mirage("chain", "list", user="alice", MIRAGE_URL=port).stderr == ""


def test_it_sees_its_users_chains_and_says_that_it_sees_no_more(
    site: Site, own: Path, mine: str, chains: dict[str, str]
) -> None:
    done = site.mirage("chain", "list", "--json", user="alice", MIRAGE_URL="")
    seen = {row["chain_id"] for row in json.loads(done.stdout)}
    assert seen & {*chains.values(), mine} == {chains["alice"], mine}
    cluster = json.loads(curl(site, own, "alice", "/cluster").stdout)
    assert (cluster["partial"], cluster["mode"]) == (True, "shadow")
    whole = site.ask("GET", "/cluster", site.token("alice")).json()
    assert whole["partial"] is False, "an Operator is shown all"


def test_it_acts_on_its_users_jobs_alone(
    site: Site, own: Path, mine: str, chains: dict[str, str]
) -> None:
    """bob's standby stays held; alice's is freed, and starts, by what alice herself may do."""
    site.mirage("mode", "act", "--user", user="alice", MIRAGE_URL="")

    def running(chain_id: str) -> list[int]:
        jobs = site.chain_jobs(chain_id)
        return [job for job in jobs if site.testbed.state(job) == "RUNNING"]

    site.testbed.wait_until(lambda: len(running(mine)) == 2, 30, "alice's standby to start")
    assert len(running(chains["bob"])) == 1
    assert shown(site, own, mine)["links"][1]["freed_at"] is not None


def test_a_second_one_is_refused_in_one_sentence(site: Site, own: Path) -> None:
    done = site.mirage("serve", "--user", user="alice", check=False, MIRAGE_URL="")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"mirage: cannot listen on {own}/socket")
