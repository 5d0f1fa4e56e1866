"""The RPM packages: what they are made of, and their scripts in a root of Debian's.

No EL and no python3.12 is to be had here. So the packages for python3.12 are looked at, and their
twins for this host's Python, which are the same but for the wheels' Python, come, serve and go.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirage.database.schema.tables import SCHEMA
from tests import needed
from tests.acceptance.deploy import packages
from tests.acceptance.deploy.clean_root import CleanRoot, clean_root
from tests.acceptance.deploy.packages import NEXT_SCHEMA
from tests.acceptance.deploy.test_deb import STATE, answers, copies, modes, schema, served
from tests.static import find_program
from tests.support.paths import DEPLOY

pytestmark = pytest.mark.deb

FOLDER = DEPLOY / "rpm"
RPM = ("rpm", "--force-debian", "--nodeps")
_NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8, 0, 0)}
"""What EL 8 has: glibc 2.28 and the libraries of gcc 8."""
_OF_EL = re.compile(
    r"(ld-linux-x86-64\.so\.2|lib(c|dl|m|pthread|resolv|rt|util)\.so\.\d|"
    r"libgcc_s\.so\.1|libstdc\+\+\.so\.6|libz\.so\.1)"
)
"""Libraries of the packages that mirage.spec requires."""
_OPTIONAL = re.compile(r"(omppool|tbbpool)\..*")
"""Pools of threads that numba loads if the host has their libraries; it brings another."""
_WRITTEN_BY_RPM = (
    *("/root/.rpmdb", "/var/lib/rpm", "/var/log", "/etc/passwd-", "/etc/group-"),
    *("/etc/shadow-", "/etc/gshadow-", "/etc/subuid", "/etc/subgid", "/etc/.pwd.lock"),
)
_OF_FILESYSTEM = {"/usr/share/licenses"}
"""Of each EL: its package filesystem has it."""


@dataclass(frozen=True, slots=True)
class Rpms:
    folder: Path
    """All are below it."""
    instant: int
    """Of the commit that they are of."""
    for_el: dict[str, Path]
    """By name, for python3.12."""
    twin: Path
    """mirage for this host's Python."""
    later: list[Path]
    """mirage-plugin and mirage, for this host's Python, with one more migration."""


@pytest.fixture(scope="module")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> Rpms:
    if os.geteuid() != 0 or shutil.which("rpmbuild") is None:
        needed.absent("packages are tried as root on Debian, with its package rpm")
    folder = tmp_path_factory.mktemp("rpms")
    now, source = packages.committed_at("HEAD"), packages.present(folder / "present")
    later, own = packages.later(folder / "later"), packages.PYTHONS["debian12"]
    for_el = packages.build_rpms(source, folder / "el", epoch=now)
    (twin,) = packages.build_rpms(source, folder / "twin", "mirage", epoch=now, python=own)
    newer = packages.build_rpms(
        later, folder / "later-twin", "mirage-plugin", "mirage", epoch=now + 1, python=own
    )
    for used in ("work", "present", "later"):
        shutil.rmtree(folder / used)
    return Rpms(folder, now, {query(rpm, "%{NAME}"): rpm for rpm in for_el}, twin, newer)


@pytest.fixture(scope="module")
def tree(rpms: Rpms, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the packages for EL."""
    place = tmp_path_factory.mktemp("el")
    words = [
        *RPM,
        "--noscripts",
        "--root",
        str(place),
        "--install",
        *map(str, rpms.for_el.values()),
    ]
    subprocess.run(words, check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def root(rpms: Rpms) -> Iterator[CleanRoot]:
    with clean_root(rpms.folder) as place:
        place.run("userdel", "--force", "mirage")
        yield place


def query(rpm: Path, form: str) -> str:
    words = ["rpm", "--query", "--package", "--queryformat", form, str(rpm)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def install(root: CleanRoot, rpms: Rpms, *chosen: Path) -> str:
    """What rpm and the packages' own scripts say."""
    places = (f"/srv/{rpm.relative_to(rpms.folder)}" for rpm in chosen)
    answer = root.run(*RPM, "--upgrade", *places)
    output = answer.stdout + answer.stderr
    assert answer.returncode == 0, output
    assert "scriptlet failed" not in output
    return output


def read_wheel_tags(tree: Path) -> set[str]:
    files = tree.glob("usr/lib/mirage/**/*.dist-info/WHEEL")
    return {
        line.partition(": ")[2]
        for file in files
        for line in file.read_text().splitlines()
        if line.startswith("Tag: ")
    }


def find_shared_objects(tree: Path) -> list[Path]:
    files = (path for path in tree.glob("usr/lib/mirage/**/*.so*") if path.is_file())
    return [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]


def test_every_wheel_is_for_the_python_and_the_glibc_of_el_8(tree: Path) -> None:
    tags = read_wheel_tags(tree)
    assert any(tag.startswith("cp312-cp312-manylinux") for tag in tags)
    platforms = "|".join(
        [*(f"manylinux_2_{minor}" for minor in range(5, 29)), "manylinux(1|2010|2014)"]
    )
    fits = re.compile(rf"(py[23\.py]*-none|cp312-cp312|cp3\d+-abi3)-(any|({platforms})_x86_64)")
    assert {tag for tag in tags if not fits.fullmatch(tag)} == set()
    assert not list(tree.glob("usr/lib/mirage/**/*.cpython-3[!1]*.so"))
    assert not list(tree.glob("usr/lib/mirage/**/*.cpython-31[!2]*.so"))


def list_missing_in_el(path: Path, own: set[str]) -> Iterator[str]:
    """Symbol versions and libraries that a module needs and EL 8 has not. `own`: the packages'."""
    words = ["objdump", "--private-headers", str(path)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    for name, version in re.findall(r" (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)$", output, re.MULTILINE):
        if tuple(map(int, version.split("."))) > _NEWEST[name]:
            yield f"{path.name}: {name}_{version}"
    for library in re.findall(r"^  NEEDED +(\S+)$", output, re.MULTILINE):
        brought = library in own or _OF_EL.fullmatch(library) or _OPTIONAL.match(path.name)
        if not brought:
            yield f"{path.name}: {library}"


def test_no_module_needs_a_newer_symbol_or_another_library_than_el_8_has(tree: Path) -> None:
    files = find_shared_objects(tree)
    assert len(files) > 100
    own = {path.name for path in files}
    assert [fault for path in files for fault in list_missing_in_el(path, own)] == []


def test_every_file_is_roots_and_programs_lie_below_a_bin(rpms: Rpms, tree: Path) -> None:
    for rpm in rpms.for_el.values():
        form = "[%{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMODES:perms} %{FILENAMES}\n]"
        for line in query(rpm, form).splitlines():
            user, group, perms, path = line.split(" ", 3)
            assert (user, group) == ("root", "root"), line
            expected = {"drwxr-xr-x", "lrwxrwxrwx", "-rw-r--r--"}
            expected |= {"-rwxr-xr-x"} if re.search("/s?bin/", path) else set()
            expected |= {"-rw-r-----"} if path == "/etc/default/mirage" else set()
            assert perms in expected, line
    for program in ("sbatch", "mirage-link", "hooks/mirage-push"):
        assert os.access(tree / "usr/lib/mirage/slurm_plugin" / program, os.X_OK)


def test_the_packages_ask_for_python_and_for_no_slurm(rpms: Rpms) -> None:
    needs = {
        name: set(
            query(rpm, "[%{REQUIRENAME} %{REQUIREFLAGS:depflags} %{REQUIREVERSION}\n]").split("\n")
        )
        for name, rpm in rpms.for_el.items()
    }
    version = query(rpms.for_el["mirage"], "%{VERSION}-%{RELEASE}")
    assert {"python3.12  ", "glibc >= 2.28", f"mirage-plugin = {version}"} <= needs["mirage"]
    assert f"mirage = {version}" in needs["mirage-learn"]
    names = {need.split()[0] for needed_ in needs.values() for need in needed_ if need}
    assert {name for name in names if "slurm" in name} == set()
    assert query(rpms.for_el["mirage-plugin"], "%{ARCH}") == "noarch"


def test_the_twin_differs_in_the_python_of_its_wheels_alone(rpms: Rpms) -> None:
    """What the twin shows of a module, another file of the same release of the same wheel does."""
    for_el, twin = (
        {
            re.sub(r"(python|cpython-?)3\.?\d\d(?!\d)", r"\1", path)
            for path in query(rpm, "[%{FILENAMES}\n]").splitlines()
        }
        for rpm in (rpms.for_el["mirage"], rpms.twin)
    )
    # Left over from distutils, which Python 3.12 no longer has.
    assert {path for path in for_el ^ twin if "/numpy/distutils" not in path} == set()


_SCRIPTS = ("PREIN", "POSTIN", "POSTTRANS", "PREUN", "POSTUN")


def test_rpmlint_and_shellcheck_have_nothing_to_say(rpms: Rpms) -> None:
    if shutil.which("rpmlint") is None:
        needed.absent("rpmlint is not installed")
    words = ["rpmlint", "--config", str(FOLDER / "rpmlint.toml"), *map(str, rpms.for_el.values())]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert re.search(r"\b0 errors, 0 warnings", done.stdout), done.stdout + done.stderr
    shellcheck = find_program("shellcheck")
    assert shellcheck is not None
    for rpm in rpms.for_el.values():
        for script in filter(None, (query(rpm, f"%|{tag}?{{%{{{tag}}}}}|") for tag in _SCRIPTS)):
            command = [shellcheck, "--norc", "--shell=sh", "-"]
            done = subprocess.run(
                command, input=script, check=False, capture_output=True, text=True
            )
            assert done.stdout == ""


def list_left(root: CleanRoot) -> set[str]:
    new = {path for path in root.new() if not path.startswith(_WRITTEN_BY_RPM)}
    return new - _OF_FILESYSTEM


def erase(root: CleanRoot, *names: str) -> None:
    output = root.run(*RPM, "--erase", *names)
    assert output.returncode == 0, output.stderr
    assert "scriptlet failed" not in output.stderr


UNITS = "mirage-backup.timer mirage-report.timer mirage.service"
_SYSTEMCTL = """#!/bin/sh
case "$*" in
"is-active --quiet mirage.service") exit 0 ;;
is-active*) exit 3 ;;
esac
echo "$*" >>/run/words
"""


def stand_in_for_systemd(root: CleanRoot) -> None:
    """No systemd runs in the root: one that runs the service is played."""
    root.done("mkdir", "-p", "/run/systemd/system")
    root.done("mv", "/usr/bin/systemctl", "/root/systemctl")
    for program, text in (("systemctl", _SYSTEMCTL), ("systemd-run", "#!/bin/sh\n")):
        place = f"/usr/bin/{program}"
        root.done("sh", "-c", f'printf %s "$1" >{place} && chmod 755 {place}', "sh", text)


def read_systemd_words(root: CleanRoot) -> list[str]:
    """What it was told since the last time."""
    words = root.done("cat", "/run/words").splitlines()
    root.done("rm", "/run/words")
    return words


def test_a_package_comes_serves_is_upgraded_and_goes(root: CleanRoot, rpms: Rpms) -> None:
    """One life, since each step needs the one before it."""
    before = list_left(root)
    output = install(root, rpms, rpms.for_el["mirage-plugin"], rpms.twin)
    assert "systemctl enable --now mirage" in output
    assert "the database has this program's schema" in output
    assert root.done("stat", "-c", "%U %G %a", STATE) == "mirage mirage 750\n"
    assert root.done("stat", "-c", "%U %a", "/etc/default/mirage") == "root 640\n"
    assert root.done("find", "/usr/lib/mirage/lib", "-name", "*.cpython-*.pyc")
    with served(root) as process:
        assert answers(root, "/healthz") == '200 {"status":"ok"}\n'
        root.end(process)
        process.communicate()
    assert process.returncode == 0
    root.done("mirage-as-service", "mode", "observe", "--partition", "gpu")
    edited = "# the words of this site\n"
    root.done("sh", "-c", f"printf '{edited}' >> /etc/mirage/mirage.toml")

    stand_in_for_systemd(root)
    output = install(root, rpms, *rpms.later)
    assert "the database has this program's schema" in output
    assert "systemctl enable --now mirage" not in output
    assert schema(root) == NEXT_SCHEMA
    assert modes(root) == {"*": "shadow", "gpu": "observe"}
    assert root.done("tail", "-n", "1", "/etc/mirage/mirage.toml") == edited
    (copy,) = copies(root)
    assert int(copy.rpartition("/")[2].split("-")[1]) == int(SCHEMA)

    # Stopped before the files changed, and started again; what did not run stays so.
    assert read_systemd_words(root) == [
        "stop mirage-kernels.service",
        f"stop {UNITS}",
        "daemon-reload",
        "start mirage.service",
    ]

    # Erased, rpm keeps what the site wrote; the page's commands delete that too.
    erase(root, "mirage", "mirage-plugin")
    assert read_systemd_words(root) == [
        "stop mirage-kernels.service",
        f"stop {UNITS}",
        "disable --quiet mirage.service mirage-backup.timer mirage-report.timer",
        "daemon-reload",
    ]
    root.done("mv", "/root/systemctl", "/usr/bin/systemctl")
    root.done("rm", "-r", "/run/systemd")
    assert root.done("tail", "-n", "1", "/etc/mirage/mirage.toml.rpmsave") == edited
    assert root.done("find", STATE, "-name", "mirage.db")
    root.done("rm", "-rf", STATE, "/var/cache/mirage", "/etc/mirage", "/etc/default/mirage.rpmsave")
    root.done("userdel", "mirage")
    assert list_left(root) == before


def test_without_its_python_a_package_says_so_and_goes_without_a_trace(
    root: CleanRoot, rpms: Rpms
) -> None:
    """As in an image whose packages come in any order: no scriptlet fails."""
    before = list_left(root)
    output = install(root, rpms, *rpms.for_el.values())
    assert "/usr/bin/python3.12 is missing: install it, then reinstall mirage" in output
    assert root.run("systemctl", "is-enabled", "mirage-learn.timer").stdout == "enabled\n"
    assert root.done("/usr/lib/mirage/slurm_plugin/mirage-link", "--help")
    erase(root, *rpms.for_el)
    root.done("rm", "-rf", STATE, "/var/cache/mirage")
    root.done("userdel", "mirage")
    assert list_left(root) == before


def test_one_commit_makes_one_plugin_byte_for_byte(rpms: Rpms, tmp_path: Path) -> None:
    source, out = packages.present(tmp_path / "present"), tmp_path / "out"
    (again,) = packages.build_rpms(source, out, "mirage-plugin", epoch=rpms.instant)
    assert again.read_bytes() == rpms.for_el["mirage-plugin"].read_bytes()
