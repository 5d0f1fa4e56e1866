"""On a real Slurm with PrivateData: alice cannot see, stop or steer bob's chain."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import patient
from tests.support.identity.site import URL, Site

pytestmark = pytest.mark.slurm

HOSTILE = "x\n[error] root did it\x1b[2J<script>alert(1)</script>$(touch {0})`touch {0}`;touch {0}"


def states(site: Site, chains: dict[str, str]) -> dict[str, str]:
    return {user: shown(site, user, chain_id)["state"] for user, chain_id in chains.items()}


def shown(site: Site, user: str, chain_id: str) -> dict[str, Any]:
    found: dict[str, Any] = site.ask("GET", f"/chains/{chain_id}", site.token(user)).json()
    return found


def test_each_sees_their_own_and_a_coordinator_both(site: Site, chains: dict[str, str]) -> None:
    seen, both = {}, set(chains.values())
    for user in ("alice", "bob", "carol", "mirage"):
        rows = site.ask("GET", "/chains", site.token(user)).json()["items"]
        seen[user] = {row["chain_id"] for row in rows} & both
    done = site.mirage("chain", "list", "--json", user="alice")
    assert {row["chain_id"] for row in json.loads(done.stdout)} & both == {chains["alice"]}
    assert seen == {"alice": {chains["alice"]}, "bob": {chains["bob"]}, "carol": both} | {
        "mirage": both
    }
    jobs = site.ask("GET", "/jobs", site.token("alice", "lifespan=60")).json()["items"]
    assert {row["user"] for row in jobs} == {"alice"}
    assert patient.get(f"{URL}/api/v1/jobs").status_code == 401
    metrics = patient.get(f"{URL}/metrics").text
    assert not any(word in metrics for word in ("alice", "bob", *both))


def test_bobs_chain_does_not_obey_alice(site: Site, chains: dict[str, str]) -> None:
    bobs, token = chains["bob"], site.token("alice", "lifespan=60")
    for verb in ("show", "cancel"):
        done = site.mirage("chain", verb, bobs, user="alice", check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"mirage: there is no chain {bobs}\n"
    for path in ("", "/decisions"):
        assert site.ask("GET", f"/chains/{bobs}{path}", token).status_code == 404
    for verb in ("pause", "resume", "cancel"):
        assert site.ask("POST", f"/chains/{bobs}/{verb}", token).status_code == 404
    body = json.dumps({"chain_id": bobs, "job_id": 1, "links": 1}).encode()
    taken = site.ask("POST", "/chains", token, body)
    assert (taken.status_code, "bob" in taken.json()["detail"]) == (422, False)
    refused = [row for row in site.audit() if row["event"] == "refused: not allowed"]
    assert sum(bobs in row["detail"] for row in refused if row["actor"] == "alice") >= 8
    assert states(site, chains) == {"alice": "active", "bob": "active"}
    assert set(site.chain_jobs(bobs).values()) == {"bob"}


def test_what_is_no_chain_id_goes_nowhere(site: Site, chains: dict[str, str]) -> None:
    token = site.token("alice")
    for chain_id in ("..%2f..%2fmode", "x%20y", "$(id)", "A" * 20, "a" * 33, f"{chains['bob']}%00"):
        assert site.ask("POST", f"/chains/{chain_id}/cancel", token).status_code in {404, 422}
    assert states(site, chains) == {"alice": "active", "bob": "active"}


def test_bobs_mark_on_alices_job_makes_it_no_link(site: Site, chains: dict[str, str]) -> None:
    """A comment is anybody's to write: the uid that Slurm shows decides."""
    bobs = chains["bob"]
    before = [link["job_id"] for link in shown(site, "bob", bobs)["links"]]
    mine = [
        site.testbed.sbatch("--hold", f"--comment=mirage:{bobs}:{link}", user="alice")
        for link in (1, 2, 3)
    ]
    ticks = site.ask("GET", "/cluster", site.token("alice")).json()["as_of"]
    site.testbed.wait_until(
        lambda: site.ask("GET", "/cluster", site.token("alice")).json()["as_of"] > ticks,
        20,
        "a tick that has seen them",
    )
    after = shown(site, "bob", bobs)
    assert [link["job_id"] for link in after["links"]] == before
    assert after["user"] == "bob"
    assert all(site.testbed.state(job) == "PENDING" for job in mine), "and nobody touched them"
    site.testbed.run(["scancel", *map(str, mine)])


def test_a_hostile_name_reaches_no_shell_log_or_page(site: Site, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    touched = tmp_path / "touched"
    hostile = HOSTILE.format(touched)
    job = site.testbed.sbatch("--hold", f"--job-name={hostile}", f"--comment={hostile}")
    script = site.root / "alice" / "$(touch touched);`id`.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    argv = [str(site.root / "slurm_plugin" / "sbatch"), "--mirage-chain=2", "--time=30", "-n1"]
    argv += ["--hold", f"--comment={hostile}", "--output=/dev/null", str(script)]
    site.run(argv, user="alice")
    token = site.token("alice")

    def seen() -> bool:
        rows = site.ask("GET", "/jobs", token).json()["items"]
        return any(row["job_id"] == job for row in rows)

    site.testbed.wait_until(seen, 20, "the service to see it")
    answer = site.ask("GET", "/jobs", token)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "\x1b" not in answer.text
    listed = site.mirage("chain", "list", user="alice")
    assert "\x1b" not in listed.stdout
    refused = site.mirage("chain", "pause", hostile, user="alice", check=False)
    assert refused.stderr.count("\n") == 1
    assert not touched.exists()
    assert not any(p.name == "touched" for p in (site.root / "alice").iterdir())
    lines = site.log().splitlines()
    assert not any("\x1b[2J" in line or line.startswith("[error] root did it") for line in lines)
    site.testbed.run(["scancel", "--user=alice", "--state=PENDING", f"--name={script.name}"])
    site.testbed.run(["scancel", str(job)])


def directory(site: Site, user: str, chain_id: str) -> Path:
    return site.root / user / "chains" / chain_id


def run_link(site: Site, user: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    program = str(site.root / "slurm_plugin" / "mirage-link")
    return site.run([program, *words], user=user, check=False, **more)


def test_files_of_bobs_chain_are_closed_to_alice(site: Site, chains: dict[str, str]) -> None:
    bobs = directory(site, "bob", chains["bob"])
    assert bobs.stat().st_mode & 0o077 == 0
    for verb in ("stop", "done", "status"):
        assert run_link(site, "alice", verb, str(bobs)).returncode == 1
    for argv in (["cat", f"{bobs}/env"], ["touch", f"{bobs}/stop"], ["ls", str(bobs)]):
        assert site.run(argv, user="alice", check=False).returncode != 0
    assert not (bobs / "stop").exists()


def test_a_link_or_a_directory_of_alices_in_its_place_is_not_taken(
    site: Site, chains: dict[str, str]
) -> None:
    alices, bobs = (directory(site, user, chains[user]) for user in ("alice", "bob"))
    # A directory of alice's own, and a symbolic link to it, as bob's chain.
    for place in ("copied", "linked"):
        shared = site.root / "alice" / place
        shared.mkdir(mode=0o755)
        if place == "copied":
            shutil.copytree(alices, shared / chains["bob"], symlinks=True)
            for path in (shared / chains["bob"], shared / chains["bob"] / "ends"):
                shutil.chown(path, "alice")
                path.chmod(0o777)
        else:
            (shared / chains["bob"]).symlink_to(bobs)
        done = run_link(site, "bob", "stop", chains["bob"], MIRAGE_STATE_DIR=str(shared))
        assert (done.returncode, "no chain of yours" in done.stderr) == (1, True)
    assert not (bobs / "stop").exists()


@pytest.mark.parametrize(
    ("mode", "owner"), [(0o777, "bob"), (0o775, "bob"), (0o755, "alice")], ids=str
)
def test_a_place_where_others_may_write_holds_no_chain(site: Site, mode: int, owner: str) -> None:
    """The job is submitted all the same, as a plain one, and a line says why."""
    shared = site.root / f"shared-{mode:o}-{owner}"
    shared.mkdir()
    shared.chmod(mode)
    shutil.chown(shared, owner)
    argv = [str(site.root / "slurm_plugin" / "sbatch"), "--mirage-chain=3", "--hold", "-n1"]
    argv += ["--output=/dev/null", str(site.root / "bob" / "job.sh")]
    done = site.run(argv, user="bob", MIRAGE_STATE_DIR=str(shared))
    assert done.returncode == 0
    assert done.stderr.startswith("mirage: ")
    assert list(shared.iterdir()) == []
    job = done.stdout.split()[-1]
    assert "mirage:" not in site.testbed.job(int(job)).get("Comment", "")
    site.testbed.run(["scancel", job])


def test_a_coordinator_pauses_and_the_owner_resumes(site: Site, chains: dict[str, str]) -> None:
    bobs = chains["bob"]
    assert site.mirage("chain", "pause", bobs, user="carol").returncode == 0
    assert shown(site, "bob", bobs)["note"] == "paused by carol"
    assert site.ask("POST", f"/chains/{bobs}/resume", site.token("bob")).status_code == 200


def test_an_operator_is_an_admin_and_a_user_is_not(site: Site) -> None:
    body = b'{"mode": "shadow"}'
    codes = {
        user: site.ask("PUT", "/mode", site.token(user), body).status_code
        for user in ("mirage", "carol", "alice")
    }
    assert codes == {"mirage": 200, "carol": 403, "alice": 403}


def test_the_socket_tells_who_calls_without_a_secret(site: Site, chains: dict[str, str]) -> None:
    """Everybody may connect; the directory above it decides who can reach it."""
    os.chmod(site.root / "mirage", 0o755)  # noqa: S103 - of this test's own folder
    url = f"unix://{site.root}/mirage/socket"
    for file in ("mirage.db", "mirage.db-wal"):
        words = ["cat", str(site.root / "mirage" / file)]
        assert site.run(words, user="alice", check=False).returncode == 1
    done = site.mirage("chain", "list", "--json", user="alice", MIRAGE_URL=url)
    seen = {row["chain_id"] for row in json.loads(done.stdout)}
    assert seen & set(chains.values()) == {chains["alice"]}
    done = site.mirage("chain", "pause", chains["bob"], user="alice", check=False, MIRAGE_URL=url)
    assert done.returncode == 2
