"""The Debian package on a clean root: installed, served from, upgraded, refused, removed."""

import json
import os
import shutil
import subprocess
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
from tests.acceptance.deploy.packages import NEXT_SCHEMA

pytestmark = [
    pytest.mark.deb,
    # It installs from registries, in the idle time of a machine that does much else.
    pytest.mark.timeout(3600),
]

STATE = "/var/lib/mirage"
SOCKET = "/run/mirage/api.sock"
PYTHON = "/usr/lib/mirage/bin/python3"
BOTH = ("mirage", "mirage-learn")
DPKG = ("dpkg", "--force-unsafe-io")
_WRITTEN_BY_DPKG = (
    *("/var/lib/dpkg", "/var/log", "/var/cache", "/etc/passwd-", "/etc/group-"),
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
    source: Path
    """The checkout as it was when `present` was made."""
    parent: Path
    present: Path
    present_learn: Path
    later: Path
    later_learn: Path


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Debs:
    if os.geteuid() != 0 or shutil.which("dpkg-deb") is None:
        needed.absent("packages are tried as root on Debian")
    folder = tmp_path_factory.mktemp("debs")
    now, out = packages.committed_at("HEAD"), folder / "out"
    source, before = packages.present(folder / "present"), packages.parent(folder / "parent")
    # An upgrade from a release without mirage-learn; the parent may have none to build.
    (parent,) = packages.build(before, out, "mirage", epoch=now - 1)
    present = packages.build(source, out, *BOTH, epoch=now)
    later = packages.build(packages.later(folder / "later"), out, *BOTH, epoch=now + 1)
    shutil.rmtree(folder / "work")
    return Debs(source, parent, *present, *later)


@pytest.fixture(scope="module")
def root(debs: Debs) -> Iterator[CleanRoot]:
    with clean_root(debs.present.parent) as made:
        # A testbed that stood on this host leaves an account of that name, which no package made.
        made.run("userdel", "--force", "mirage")
        yield made


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


def install(root: CleanRoot, *debs: Path) -> str:
    """What dpkg and the packages' own scripts say."""
    answer = root.run(*DPKG, "--install", *(f"/srv/{deb.name}" for deb in debs))
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
    told = install(root, debs.parent)
    assert "/usr/lib/mirage/bin/python3" in root.new()
    assert "systemctl enable --now mirage" in told
    assert root.done("stat", "-c", "%U %G %a", STATE) == "mirage mirage 750\n"
    assert root.done("stat", "-c", "%U %a", "/etc/default/mirage") == "root 640\n"
    root.done("mirage-as-service", "mode", "observe", "--partition", "gpu")
    edited = "# the words of this site\n"
    root.done("sh", "-c", f"printf '{edited}' >> /etc/mirage/mirage.toml")

    # The parent's database, brought to a program of one more migration, and copied before.
    assert root.run(PYTHON, "-I", "-c", "import sklearn").returncode == 1
    told = install(root, debs.later, debs.later_learn)
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

    # Downgraded: dpkg does it, and the service says in one sentence why it does not start.
    root.done("systemctl", "disable", "mirage-learn.timer")
    told = install(root, debs.present, debs.present_learn)
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
    root.done(*DPKG, "--purge", *BOTH)
    assert root.run("getent", "passwd", "mirage").returncode == 2
    assert root.run("getent", "group", "mirage").returncode == 2
    left = {path for path in root.new() if not path.startswith(_WRITTEN_BY_DPKG)}
    assert left == set()
    assert "mirage" not in root.done("dpkg-query", "--show")


def test_the_installed_service_answers_and_the_doctor_finds_no_fault_but_of_slurm(
    root: CleanRoot, debs: Debs
) -> None:
    install(root, debs.present)
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
    assert "apt install ./mirage-learn_" in found["nightly learning"][1]
    # What users touch is there, as their Python and shell find it.
    assert "mirage-chain" in root.done("cat", "/usr/lib/mirage/slurm_plugin/README.md")
    assert root.done("readlink", "-f", f"{PYTHON}") == "/usr/bin/python3.11\n"
    root.done(*DPKG, "--remove", "mirage")
    assert root.done("ls", STATE, "/etc/mirage")
    root.done(*DPKG, "--purge", "mirage")


def test_an_unpacked_package_works_where_it_lies(root: CleanRoot, debs: Debs) -> None:
    """The shadow report of a log needs no installation."""
    root.done("dpkg-deb", "--extract", f"/srv/{debs.present.name}", "/opt/apart")
    told = root.done("/opt/apart/usr/bin/mirage", "--version", user="mail")
    assert told.startswith("mirage ")
    root.done("test", "!", "-e", "/usr/bin/mirage")
    line = root.done("/opt/apart/usr/bin/mirage", "plugin", "path")
    assert line.startswith("export PATH=/opt/apart/usr/lib/mirage/slurm_plugin:")
    root.done("rm", "-r", "/opt/apart")


def test_root_means_the_services_database(root: CleanRoot, debs: Debs) -> None:
    """Without it `mirage mode shadow` would stop nothing."""
    install(root, debs.present)
    set_it = "echo MIRAGE_DATABASE_URL=postgresql://mirage@127.0.0.1:9/mirage >>/etc/default/mirage"
    root.done("sh", "-c", set_it)
    shown = root.done("mirage", "config", "show", "--origin")
    assert "127.0.0.1:9/mirage" in shown
    own = "MIRAGE_DATABASE_URL=sqlite:////tmp/x.db mirage config show"
    assert 'database.url = "sqlite:////tmp/x.db"' in root.done("sh", "-c", own)
    told = install(root, debs.later)
    assert "pg_dump" in told
    root.done(*DPKG, "--purge", "mirage")


def test_one_commit_makes_one_package_byte_for_byte(debs: Debs, tmp_path: Path) -> None:
    epoch = packages.committed_at("HEAD")
    again = packages.build(debs.source, tmp_path / "out", *BOTH, epoch=epoch)
    for one, before in zip(again, (debs.present, debs.present_learn), strict=True):
        assert one.name == before.name
        same = subprocess.run(["cmp", one, before], capture_output=True, check=False)
        assert same.returncode == 0, same.stdout
