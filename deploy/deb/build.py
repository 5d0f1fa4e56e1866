"""Builds the Debian packages mirage, mirage-learn and mirage-plugin. No root needed.

    python deploy/deb/build.py --out dist          # `make deb`; prints the packages' paths

mirage-plugin is what users' hosts need: the wrapped sbatch, for any python3. mirage holds the
service, its own Python environment and its units; mirage-learn adds to it what trains trees, and
the timer that does. These two are for one release, whose Python runs them: their dependencies are
the wheels of requirements/learn.txt for that Python, without tests and headers (wheels.py). The
postinst of each compiles its bytecode. A commit gives the same packages, byte for byte.
"""

import argparse
import functools
import gzip
import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import wheels

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
CLIENT = "mirage-slurm"
"""The users' part, which is laid at a place of its own."""
EXTRAS = ("postgres", "jwt")
LEARN_EXTRAS = ("trees",)
PINS = "requirements/learn.txt"
"""Of both packages."""
PYTHONS = {
    "debian12": "3.11",
    "debian13": "3.13",
    "ubuntu24.04": "3.12",
    "ubuntu26.04": "3.14",
}
"""The package python3.N of a release that runs Mirage."""
TRIED = ("debian12", "debian13")
VERSION_EPOCH = "1"
"""The number before the colon in the packages' versions, which dpkg compares first. Debian has an
image viewer called mirage, 0.11: without the epoch apt takes the viewer for Mirage's upgrade."""
LIB = Path("usr/lib/mirage")
PLUGIN = LIB / "slurm_plugin"
LEARN_SITE = LIB / "learn"
"""What mirage-learn adds: a folder of its own, which a .pth file of its own names."""
PLACES = {
    "mirage-as-service": "usr/sbin/mirage-as-service",
    "set-up": "usr/lib/mirage/bin/set-up",
    "mirage.toml": "etc/mirage/mirage.toml",
    "default": "etc/default/mirage",
}
"""Where each file of deploy/deb/files goes in the package."""
UNITS = {
    "mirage.service": "usr/lib/systemd/system/mirage.service",
    "mirage-backup.service": "usr/lib/systemd/system/mirage-backup.service",
    "mirage-backup.timer": "usr/lib/systemd/system/mirage-backup.timer",
    "mirage-report.service": "usr/lib/systemd/system/mirage-report.service",
    "mirage-report.timer": "usr/lib/systemd/system/mirage-report.timer",
    "user/mirage.service": "usr/lib/systemd/user/mirage.service",
}
LEARN_UNITS = {
    "mirage-learn.service": "usr/lib/systemd/system/mirage-learn.service",
    "mirage-learn.timer": "usr/lib/systemd/system/mirage-learn.timer",
}
EXAMPLES = ("grafana", "prometheus", "nginx")
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", ".*_cache", "dist", "__pycache__")
_RUN_BY_DPKG = ("postinst", "postrm", "prerm")


@dataclass(frozen=True)
class Order:
    """What is built, from which checkout, for which release."""

    source: Path
    """The checkout."""
    out: Path
    work: Path
    """Keeps the wheels for more."""
    release: str
    level: int
    """Of zstd: 1 (seconds) to 19 (minutes, and smaller)."""

    @property
    def python(self) -> str:
        return PYTHONS[self.release]

    @property
    def version(self) -> str:
        """The next release's package of a commit is the newer one: an upgrade brings it."""
        return f"{read_version(self.source)}~{self.release}"


def main() -> None:
    options = _options()
    source, out, work = (p.resolve() for p in (options.source, options.out, options.work))
    out.mkdir(parents=True, exist_ok=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(read_epoch(source))
    releases = options.release or list(TRIED)
    for name in options.package or BUILDERS:
        for release in releases[:1] if name in OF_ALL_RELEASES else releases:
            print(BUILDERS[name](Order(source, out, work, release, options.level)), flush=True)


def build_plugin(order: Order) -> Path:
    """Lay and pack mirage-plugin. It is the same for all releases."""
    version, tree = read_version(order.source), order.work / "plugin-tree"
    shutil.rmtree(tree, ignore_errors=True)
    lay_plugin(order.source, tree, order.work)
    _lay_documents(tree, "mirage-plugin", version, read_epoch(order.source))
    _control(tree, HERE / "plugin", version=with_epoch(version))
    return _pack(tree, order.out / f"mirage-plugin_{version}_all.deb", order.level)


def build(order: Order) -> Path:
    """Lay and pack mirage. It needs mirage-plugin of the same commit."""
    source, version, tree = order.source, order.version, order.work / "tree"
    documents = tree / "usr/share/doc/mirage"
    shutil.rmtree(tree, ignore_errors=True)
    lay_service(source, tree, order.work, order.python)
    _lay_documents(tree, "mirage", version, read_epoch(source))
    _gzip(documents / "changelog.gz", (source / "CHANGELOG.md").read_bytes())
    plugin, own = with_epoch(read_version(source)), with_epoch(version)
    _control(tree, HERE, version=own, python=order.python, plugin_version=plugin)
    return _pack(tree, order.out / f"mirage_{version}_amd64.deb", order.level)


def build_learn(order: Order) -> Path:
    """Lay and pack mirage-learn. It needs mirage of the same version."""
    version, tree = order.version, order.work / "learn-tree"
    shutil.rmtree(tree, ignore_errors=True)
    lay_learning(order.source, tree, order.work, order.python)
    _lay_documents(tree, "mirage-learn", version, read_epoch(order.source))
    _control(tree, HERE / "learn", version=with_epoch(version))
    return _pack(tree, order.out / f"mirage-learn_{version}_amd64.deb", order.level)


BUILDERS: dict[str, Callable[[Order], Path]] = {
    "mirage-plugin": build_plugin,
    "mirage": build,
    "mirage-learn": build_learn,
}
OF_ALL_RELEASES = ("mirage-plugin",)


def _pack(tree: Path, package: Path, level: int) -> Path:
    plain_modes(tree)
    run("dpkg-deb", "--root-owner-group", "-Zzstd", f"-z{level}", "--build", tree, package)
    return package


def site(python: str) -> Path:
    """Where the environment of the service has its modules. `python`: "3.13"."""
    return LIB / f"lib/python{python}/site-packages"


def lay_plugin(source: Path, tree: Path, work: Path) -> None:
    """Lay what users' hosts need."""
    shutil.copytree(_install(source, work) / "mirage_slurm_plugin", tree / PLUGIN)
    lay_file(HERE / "files/mirage", tree / "usr/bin/mirage")


def lay_service(source: Path, tree: Path, work: Path, python: str) -> None:
    """Lay the service, all but what its package's own format wants."""
    wheels.lay(_pins(source, work, python), _requirements(source, EXTRAS), tree / site(python))
    _lay_mirage(source, tree, work, python)
    _lay_environment(tree, python)
    _lay_files(tree)
    for page in sorted((source / "docs").rglob("*.md")):
        lay_file(page, tree / "usr/share/doc/mirage" / page.relative_to(source / "docs"))
    _lay_manual(work / "source", tree / "usr/share/man")


def lay_learning(source: Path, tree: Path, work: Path, python: str) -> None:
    """Lay what trains, and its timer."""
    brought = _requirements(source, EXTRAS)  # by mirage
    wanted = _requirements(source, LEARN_EXTRAS)
    wheels.lay(_pins(source, work, python), wanted, tree / LEARN_SITE, without=brought)
    _point(tree / site(python) / "mirage-learn.pth", LEARN_SITE, site(python))
    for name, place in LEARN_UNITS.items():
        lay_file(HERE.parent / "systemd" / name, tree / place)


def _pins(source: Path, work: Path, python: str) -> wheels.Pins:
    return wheels.Pins(source / PINS, python, work)


def _requirements(source: Path, extras: Sequence[str]) -> list[str]:
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    more = (project["optional-dependencies"][extra] for extra in extras)
    wanted = [*project["dependencies"], *(word for words in more for word in words)]
    return [name for name in wanted if name != CLIENT]


@functools.cache
def _install(source: Path, work: Path) -> Path:
    """Build both wheels of the checkout and install them in a folder of `work`; return it."""
    copy, built, fresh = work / "source", work / "wheels", work / "mirage"
    for folder in (copy, built, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, copy, ignore=_LEFT_BEHIND)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    for folder in (copy / "slurm_plugin", copy):  # by pip, one would name the other's path
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built, cwd=folder)
    files = sorted(built.glob("*.whl"))
    run(*pip, "install", "--no-deps", "--no-compile", "--no-index", "--target", fresh, *files)
    for name in ("direct_url.json", "RECORD"):  # they say where it was built
        for file in fresh.rglob(name):
            file.unlink()
    shutil.rmtree(fresh / "bin")
    return fresh


def _lay_mirage(source: Path, tree: Path, work: Path, python: str) -> None:
    """Lay Mirage itself, all but the plugin, which is a package of its own at a short path."""
    ignore = shutil.ignore_patterns("mirage_slurm_plugin")
    fresh, place = _install(source, work), tree / site(python)
    shutil.copytree(fresh, place, ignore=ignore, dirs_exist_ok=True)
    _point(place / "mirage_slurm.pth", PLUGIN, site(python))


def _lay_environment(tree: Path, python: str) -> None:
    """Make a virtual environment as `python3 -m venv` does, without pip."""
    (tree / LIB / "bin").mkdir()
    (tree / LIB / "bin/python3").symlink_to(f"/usr/bin/python{python}")
    settings = "home = /usr/bin\ninclude-system-site-packages = false\n"
    (tree / LIB / "pyvenv.cfg").write_text(settings)


def _point(pth: Path, folder: Path, site: Path) -> None:
    """Write a .pth file that names a folder of the tree; relative, so that it works elsewhere."""
    pth.parent.mkdir(parents=True, exist_ok=True)
    pth.write_text(f"{os.path.relpath(folder, site)}\n")


def _lay_files(tree: Path) -> None:
    for name, place in PLACES.items():
        lay_file(HERE / "files" / name, tree / place)
    for name, place in UNITS.items():
        lay_file(HERE.parent / "systemd" / name, tree / place)
    for folder in EXAMPLES:
        target = tree / "usr/share/mirage" / folder
        shutil.copytree(HERE.parent / folder, target, ignore=_LEFT_BEHIND)


def _lay_documents(tree: Path, name: str, version: str, epoch: int) -> None:
    """Lay what each Debian package has of its own: copyright and changelog."""
    place = tree / "usr/share/doc" / name
    lay_file(HERE / "files/copyright", place / "copyright")
    when = datetime.fromtimestamp(epoch, tz=UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    text = f"{name} ({with_epoch(version)}) stable; urgency=medium\n\n"
    text += "  * See /usr/share/doc/mirage/changelog.gz.\n\n"
    text += f" -- Mirage developers <mirage@localhost>  {when}\n"
    _gzip(place / "changelog.Debian.gz", text.encode())


def _lay_manual(source: Path, place: Path) -> None:
    """Write a manual page for each command with `mirage man`."""
    words = [sys.executable, "-m", "mirage", "man", str(place)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run(words, cwd=source, env=environment, capture_output=True, check=True)
    for page in sorted((place / "man1").iterdir()):
        _gzip(page.with_name(f"{page.name}.gz"), page.read_bytes())
        page.unlink()


def _control(tree: Path, folder: Path, **values: str) -> None:
    """Write name, dependencies, the list of the admin's files, and the scripts that dpkg runs.

    `folder`: has these as files, the first a template of `values` and the size.
    """
    control = tree / "DEBIAN"
    control.mkdir()
    size_kib = sum(p.lstat().st_size for p in tree.rglob("*") if not p.is_dir()) // 1024
    text = (folder / "control").read_text()
    (control / "control").write_text(text.format(size_kib=size_kib, **values))
    conffiles = sorted(p for p in (tree / "etc").rglob("*") if p.is_file())
    (control / "conffiles").write_text("".join(f"/{p.relative_to(tree)}\n" for p in conffiles))
    for name in _RUN_BY_DPKG:
        if (folder / name).exists():
            lay_file(folder / name, control / name)


def plain_modes(tree: Path) -> None:
    """Set modes and times, whatever umask and checkout. /etc/default/mirage may hold a password."""
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)
        if not path.is_symlink():
            runnable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runnable else 0o644)
    environment = tree / "etc/default/mirage"
    if environment.exists():
        environment.chmod(0o640)


def lay_file(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, place)


def _gzip(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


def read_version(source: Path) -> str:
    """Of the project, and when the commit was made: later commits are newer packages."""
    file = source / "slurm_plugin/mirage_slurm/command/version.py"
    made = datetime.fromtimestamp(read_epoch(source), tz=UTC)
    return f"{runpy.run_path(str(file))['VERSION']}+{made:%Y%m%d.%H%M%S}"


def with_epoch(version: str) -> str:
    """The version as dpkg compares it. Names of files have no epoch."""
    return f"{VERSION_EPOCH}:{version}"


def read_epoch(source: Path) -> int:
    if seconds := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(seconds)
    words = ["git", "-C", str(source), "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def run(*words: str | Path, cwd: Path | None = None) -> None:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the Debian packages.")
    parser.add_argument("--package", action="append", choices=BUILDERS, help="Only this one.")
    parser.add_argument("--release", action="append", choices=PYTHONS, help="Only for this one.")
    parser.add_argument("--source", type=Path, default=CHECKOUT, help="The checkout.")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "dist")
    parser.add_argument("--work", type=Path, default=CHECKOUT / "dist" / "work")
    parser.add_argument("--level", type=int, default=12, help="Of zstd, 1 to 19.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
