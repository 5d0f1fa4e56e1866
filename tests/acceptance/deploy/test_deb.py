"""The Debian packages on clean roots: installed, served from, upgraded, refused, removed."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirage.database.schema.tables import SCHEMA
from tests import needed
from tests.acceptance.deploy import packages
from tests.acceptance.deploy.clean_root import CleanRoot, clean_root
from tests.acceptance.deploy.packages import NEXT_SCHEMA, PYTHONS
from tests.support.patient import wait_until

pytestmark = pytest.mark.deb

STATE = "/var/lib/mirage"
SOCKET = "/run/mirage/api.sock"
PYTHON = "/usr/lib/mirage/bin/python3"
ALL = ("mirage", "mirage-plugin", "mirage-learn")
SERVICE = ALL[:2]
DPKG = ("dpkg", "--force-unsafe-io")
APT = (
    *("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "--allow-downgrades"),
    *("-o", "Dpkg::Options::=--force-unsafe-io"),
)
TESTBED = ("python3", "/srv/checkout/deploy/testbed/testbed.py")
_WRITTEN_BY_DPKG = (
    *("/var/lib/dpkg", "/var/lib/apt", "/var/log", "/var/cache", "/etc/passwd-", "/etc/group-"),
    *("/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"),
)
_PATIENCE_S = 1800.0
_ASK = """
import httpx, sys
transport = httpx.HTTPTransport(uds="/run/mirage/api.sock")
answer = httpx.Client(transport=transport).get("http://mirage" + sys.argv[1], timeout=250)
print(answer.status_code, answer.text)
"""


@dataclass(frozen=True, slots=True)
class Debs:
    """Files of packages, mirage first; each is below `folder`, beside the checkout `source`."""

    release: str
    python: str
    epoch: int
    """Of the present commit, seconds since 1970."""
    folder: Path
    source: Path
    parent: list[Path]
    present: list[Path]
    later: list[Path]


@dataclass(frozen=True, slots=True)
class Sources:
    """Checkouts, and the folder of all that is made from them."""

    folder: Path
    parent: Path
    present: Path
    later: Path


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    if os.geteuid() != 0 or shutil.which("dpkg-deb") is None:
        needed.absent("packages are tried as root on Debian")
    folder = tmp_path_factory.mktemp("debs")
    present = packages.present(folder / "checkout")
    return Sources(
        folder, packages.parent(folder / "parent"), present, packages.later(folder / "later")
    )


@pytest.fixture(scope="module", params=["debian12", "debian13"])
def debs(request: pytest.FixtureRequest, sources: Sources) -> Debs:
    release: str = request.param
    now, folder = packages.committed_at("HEAD"), sources.folder
    out = folder / release

    def built(source: Path, epoch: int, *names: str) -> list[Path]:
        return packages.build(source, out, release, *names, epoch=epoch)

    # An upgrade from a release without mirage-learn; the parent may have none to build.
    parent = built(sources.parent, now - 1, *SERVICE) if release == "debian12" else []
    present, later = built(sources.present, now, *ALL), built(sources.later, now + 1, *ALL)
    shutil.rmtree(folder / "work")
    parent = parent or present[:2]
    return Debs(release, PYTHONS[release], now, folder, sources.present, parent, present, later)


@pytest.fixture(scope="module")
def root(debs: Debs) -> Iterator[CleanRoot]:
    with below(debs.release) as folder, clean_root(debs.folder, folder) as made:
        # A testbed that stood on this host leaves an account of that name, which no package made.
        made.run("userdel", "--force", "mirage")
        yield made


@contextmanager
def below(release: str) -> Iterator[Path]:
    """This host's root, or one of Debian 13, which nobody removes meanwhile."""
    if release == "debian12":
        yield Path("/")
        return
    words = [sys.executable, str(needed.TESTBED), "root", "trixie"]
    made = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    folder = Path(made.stdout.strip())
    with (folder / ".mirage-root").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield folder


def only(release: str) -> pytest.MarkDecorator:
    """Of tests that one release is enough for."""
    return pytest.mark.parametrize("debs", [release], indirect=True)


TRAIN = """
import numpy as np, onnxruntime, sys
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as Input
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

x = np.arange(400, dtype=np.float32).reshape(100, 4)
forest = RandomForestRegressor(3, random_state=0).fit(x, x[:, 0])
boosted = XGBRegressor(n_estimators=3).fit(x, x[:, 0])
graphs = to_onnx(forest, x[:1]), convert_xgboost(boosted, initial_types=[("x", Input([None, 4]))])
for graph in graphs:
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    (answer,) = session.run(None, {session.get_inputs()[0].name: x})
    assert answer.shape == (100, 1)
print(sys.modules["sklearn"].__file__)
"""
"""Both kinds of trees, as mirage learn trains and writes them."""
LINK = """\
#!/bin/sh
#SBATCH --time=5 --output=chain.out
echo "link $MIRAGE_LINK of $MIRAGE_LINKS"
"""


def install(root: CleanRoot, *debs: Path) -> str:
    """What apt and the packages' own scripts say."""
    answer = root.run(*APT, *(f"/srv/{deb.parent.name}/{deb.name}" for deb in debs))
    told = answer.stdout + answer.stderr
    assert answer.returncode == 0, told
    return told


@contextmanager
def served(root: CleanRoot) -> Iterator[subprocess.Popen[bytes]]:
    """ExecStart of the installed unit, as its account, in the directories that systemd makes."""
    unit = root.done("cat", "/lib/systemd/system/mirage.service").splitlines()
    (command,) = (line.partition("=")[2] for line in unit if line.startswith("ExecStart="))
    root.done("install", "-d", "-o", "mirage", "-g", "mirage", "/run/mirage")
    with subprocess.Popen(
        root.argv(*command.split(), user="mirage"),
        env={"PATH": "/usr/bin:/bin", "HOME": STATE, "NUMBA_CACHE_DIR": "/var/cache/mirage"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
        finally:
            root.end(process)


def answers(root: CleanRoot, path: str) -> str:
    """Status and body, once there is an answer."""
    deadline = time.monotonic() + _PATIENCE_S
    while (answer := root.run(PYTHON, "-I", "-c", _ASK, path)).returncode != 0:
        assert time.monotonic() < deadline, answer.stderr
    return answer.stdout


def findings(root: CleanRoot) -> dict[str, tuple[str, str]]:
    """Verdict and what is told, by what."""
    answer = root.run("mirage-as-service", "doctor", "--json")
    found = json.loads(answer.stdout)["findings"]
    return {f["what"]: (f["verdict"], f["told"]) for f in found}


def schema(root: CleanRoot) -> str:
    query = "import sqlite3; print(*sqlite3.connect('/var/lib/mirage/mirage.db')"
    query += ".execute('SELECT version_num FROM schema_version').fetchone())"
    return root.done(PYTHON, "-I", "-c", query).strip()


def copies(root: CleanRoot) -> list[str]:
    return sorted(root.done("find", f"{STATE}/backups", "-type", "f", "-name", "*.db").split())


def modes(root: CleanRoot) -> dict[str, str]:
    told: dict[str, str] = json.loads(root.done("mirage-as-service", "mode", "--json"))
    return told


def enabled(root: CleanRoot) -> str:
    return root.run("systemctl", "is-enabled", "mirage-learn.timer").stdout


def remove_learning(root: CleanRoot) -> None:
    """mirage-learn alone goes, and mirage not without it."""
    refused = root.run(*DPKG, "--remove", "mirage")
    assert "mirage-learn depends on mirage (= " in refused.stderr
    root.done("systemctl", "enable", "mirage-learn.timer")
    root.done(*DPKG, "--remove", "mirage-learn")
    assert root.run(PYTHON, "-I", "-c", "import sklearn").returncode == 1
    assert root.done("/usr/bin/mirage", "--version")


def test_a_package_comes_serves_is_upgraded_and_goes_without_a_trace(
    root: CleanRoot, debs: Debs
) -> None:
    """One life, since each step needs the one before it."""
    assert root.new() == set()
    told = install(root, *debs.parent)
    assert "/usr/lib/mirage/bin/python3" in root.new()
    assert "systemctl enable --now mirage" in told
    assert root.done("readlink", "-f", PYTHON) == f"/usr/bin/python{debs.python}\n"
    assert root.done("stat", "-c", "%U %G %a", STATE) == "mirage mirage 750\n"
    assert root.done("stat", "-c", "%U %a", "/etc/default/mirage") == "root 640\n"
    root.done("mirage-as-service", "mode", "observe", "--partition", "gpu")
    edited = "# the words of this site\n"
    root.done("sh", "-c", f"printf '{edited}' >> /etc/mirage/mirage.toml")

    # The parent's database, brought to a program of one more migration, and copied before.
    assert root.run(PYTHON, "-I", "-c", "import sklearn").returncode == 1
    told = install(root, *debs.later)
    assert "the database has this program's schema" in told
    trees = root.done(PYTHON, "-I", "-c", TRAIN, user="mirage")
    assert trees.splitlines()[-1] == "/usr/lib/mirage/learn/sklearn/__init__.py"
    assert enabled(root) == "enabled\n"
    assert schema(root) == NEXT_SCHEMA
    assert modes(root) == {"*": "shadow", "gpu": "observe"}
    assert root.done("tail", "-n", "1", "/etc/mirage/mirage.toml") == edited
    (copy,) = copies(root)
    assert int(copy.rpartition("/")[2].split("-")[1]) <= int(SCHEMA)
    assert root.done("stat", "-c", "%U %a", copy) == "mirage 600\n"

    # Downgraded: apt does it, and the service says in one sentence why it does not start.
    root.done("systemctl", "disable", "mirage-learn.timer")
    told = install(root, *debs.present)
    assert "the database is left as it is" in told
    assert schema(root) == NEXT_SCHEMA
    # What the admin turned off stays off.
    assert enabled(root) == "disabled\n"
    with served(root) as process:
        said, _ = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 4
    assert said.decode() == (
        f"mirage: the database {STATE}/mirage.db has schema {NEXT_SCHEMA}, newer than {SCHEMA}, "
        "the newest this program knows: use the Mirage that upgraded it, or a later one\n"
    )

    remove_learning(root)
    root.done(*DPKG, "--purge", *ALL)
    assert root.run("getent", "passwd", "mirage").returncode == 2
    assert root.run("getent", "group", "mirage").returncode == 2
    left = {path for path in root.new() if not path.startswith(_WRITTEN_BY_DPKG)}
    assert left == set()
    assert "mirage" not in root.done("dpkg-query", "--show")


@only("debian12")
def test_users_hosts_need_the_plugin_alone(root: CleanRoot, debs: Debs) -> None:
    install(root, debs.present[1])
    root.done("test", "!", "-e", "/usr/lib/mirage/bin")
    assert root.done("/usr/bin/mirage", "--version", user="mail").startswith("mirage ")
    line = root.done("/usr/bin/mirage", "plugin", "path", user="mail")
    assert line.startswith("export PATH=/usr/lib/mirage/slurm_plugin:")
    refused = root.run("/usr/bin/mirage", "doctor", user="mail")
    assert refused.returncode == 1
    assert "ask on the host of your site's service" in refused.stderr
    root.done("test", "-d", "/usr/lib/mirage/slurm_plugin/mirage_slurm/wrapper/__pycache__")
    root.done(*DPKG, "--purge", "mirage-plugin")
    root.done("test", "!", "-e", "/usr/lib/mirage")


@only("debian12")
def test_the_installed_service_answers_and_the_doctor_finds_no_fault_but_of_slurm(
    root: CleanRoot, debs: Debs
) -> None:
    install(root, *debs.present[:2])
    told = root.done("mirage", "config", "check")
    assert told == "the configuration is right: /etc/mirage/mirage.toml\n"
    with served(root) as process:
        assert answers(root, "/healthz") == '200 {"status":"ok"}\n'
        assert answers(root, "/api/v1/mode").startswith("200 ")
        found = findings(root)
        root.end(process)
        process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0
    faults = {what: told for what, (verdict, told) in found.items() if verdict == "fault"}
    assert set(faults) <= {"Slurm", "munge"}, faults
    assert found["database"][0] == "good"
    assert found["socket"][0] == "good"
    assert found["nightly learning"][0] == "warning"
    assert "mirage-learn" in found["nightly learning"][1]
    root.done(*DPKG, "--remove", "mirage")
    assert root.done("ls", STATE, "/etc/mirage")
    root.done(*DPKG, "--purge", *SERVICE)


@only("debian12")
def test_an_unpacked_package_works_where_it_lies(root: CleanRoot, debs: Debs) -> None:
    """The shadow report of a log needs no installation."""
    for deb in debs.present[:2]:
        root.done("dpkg-deb", "--extract", f"/srv/{debs.release}/{deb.name}", "/opt/apart")
    told = root.done("/opt/apart/usr/bin/mirage", "--version", user="mail")
    assert told.startswith("mirage ")
    assert "report" in root.done("/opt/apart/usr/bin/mirage", "--help", user="mail")
    root.done("test", "!", "-e", "/usr/bin/mirage")
    line = root.done("/opt/apart/usr/bin/mirage", "plugin", "path")
    assert line.startswith("export PATH=/opt/apart/usr/lib/mirage/slurm_plugin:")
    root.done("rm", "-r", "/opt/apart")


@only("debian12")
def test_root_means_the_services_database(root: CleanRoot, debs: Debs) -> None:
    """Without it `mirage mode shadow` would stop nothing."""
    install(root, *debs.present[:2])
    set_it = "echo MIRAGE_DATABASE_URL=postgresql://mirage@127.0.0.1:9/mirage >>/etc/default/mirage"
    root.done("sh", "-c", set_it)
    shown = root.done("mirage", "config", "show", "--origin")
    assert "127.0.0.1:9/mirage" in shown
    own = "MIRAGE_DATABASE_URL=sqlite:////tmp/x.db mirage config show"
    assert 'database.url = "sqlite:////tmp/x.db"' in root.done("sh", "-c", own)
    told = install(root, *debs.later[:2])
    assert "pg_dump" in told
    root.done(*DPKG, "--purge", *SERVICE)


@only("debian13")
def test_a_chain_runs_on_the_release_s_own_slurm_by_the_packages(
    root: CleanRoot, debs: Debs
) -> None:
    """alice's chain by the packaged sbatch, beside the packaged service."""
    install(root, *debs.present[:2])
    root.done(*TESTBED, "up")
    root.done("mirage-as-service", "mode", "act")
    root.done("sed", "-i", 's/^#name = .*/name = "testbed"/', "/etc/mirage/mirage.toml")
    with served(root):
        wait_until(lambda: answers(root, "/readyz").startswith("200 "), limit_s=_PATIENCE_S)
        by_alice(root, f"cat >link.sh <<'END'\n{LINK}END")
        told = by_alice(root, "/usr/lib/mirage/slurm_plugin/sbatch --mirage-chain=2 link.sh")
        assert told.startswith("Submitted batch job ")
        wait_until(lambda: listed(root)["state"] != "active", limit_s=_PATIENCE_S)
        chain = listed(root)
        found = findings(root)
    assert by_alice(root, "grep ^link chain.out") == "link 1 of 2\nlink 2 of 2\n"
    assert (chain["state"], chain["user"]) == ("finished", "alice")
    assert found["Slurm"][0] == "good"
    assert found["Slurm"][1].startswith("24.11.")
    root.done(*TESTBED, "down")
    root.done(*DPKG, "--purge", *SERVICE)


def by_alice(root: CleanRoot, line: str) -> str:
    return root.done("sh", "-c", f"cd /home/alice && export HOME=$PWD\n{line}", user="alice")


def listed(root: CleanRoot) -> dict[str, object]:
    """Her only chain, as the service has it."""
    (chain,) = json.loads(by_alice(root, "mirage chain list --json"))
    return dict(chain)


@only("debian13")
def test_all_files_are_root_s_and_nobody_else_writes_them(debs: Debs) -> None:
    for deb in debs.present:
        words = ["dpkg-deb", "--contents", str(deb)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=5) for line in told.splitlines()]
        assert {owner for _, owner, *_ in rows} == {"root/root"}
        odd = {
            name: mode
            for mode, _, _, _, _, name in rows
            if mode not in {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"}
        }
        link = f"./usr/lib/mirage/bin/python3 -> /usr/bin/python{debs.python}"
        service = {link: "lrwxrwxrwx", "./etc/default/mirage": "-rw-r-----"}
        assert odd == (service if deb == debs.present[0] else {})


@only("debian13")
def test_one_commit_makes_one_package_byte_for_byte(debs: Debs, tmp_path: Path) -> None:
    again = packages.build(debs.source, tmp_path / "out", debs.release, *ALL, epoch=debs.epoch)
    for one, before in zip(again, debs.present, strict=True):
        assert one.name == before.name
        same = subprocess.run(["cmp", one, before], capture_output=True, check=False)
        assert same.returncode == 0, same.stdout
