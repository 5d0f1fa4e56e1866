"""Builds the Debian packages, mirage and mirage-learn. No root needed.

    python deploy/deb/build.py --out dist          # `make deb`; prints the packages' paths

mirage holds Mirage, its own Python environment and its units; mirage-learn adds to it what trains
trees, and the timer that does. They ship the versions that were tested: the dependencies are copied
from the environment that runs this program (the closure of pyproject.toml's serving ones and of the
extras postgres and jwt; of the extra trees), without tests and headers. A commit and an environment
give the same packages, byte for byte.
"""

import argparse
import gzip
import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import closure

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
CLIENT = "mirage-slurm"
"""The users' part, which is laid at a place of its own."""
EXTRAS = ("postgres", "jwt")
LEARN_EXTRAS = ("trees",)
PYTHON = "python3.11"
"""Debian 12's Python, for which the compiled modules are built."""
LIB = Path("usr/lib/mirage")
SITE = LIB / "lib" / PYTHON / "site-packages"
LEARN_SITE = LIB / "learn"
"""What mirage-learn adds: a folder of its own, which a .pth file of its own names."""
PLACES = {
    "mirage": "usr/bin/mirage",
    "mirage-as-service": "usr/sbin/mirage-as-service",
    "mirage.toml": "etc/mirage/mirage.toml",
    "default": "etc/default/mirage",
    "copyright": "usr/share/doc/mirage/copyright",
}
"""Where each file of deploy/deb/files goes in the package."""
UNITS = {
    "mirage.service": "lib/systemd/system/mirage.service",
    "mirage-backup.service": "lib/systemd/system/mirage-backup.service",
    "mirage-backup.timer": "lib/systemd/system/mirage-backup.timer",
    "mirage-report.service": "lib/systemd/system/mirage-report.service",
    "mirage-report.timer": "lib/systemd/system/mirage-report.timer",
    "user/mirage.service": "usr/lib/systemd/user/mirage.service",
}
LEARN_UNITS = {
    "mirage-learn.service": "lib/systemd/system/mirage-learn.service",
    "mirage-learn.timer": "lib/systemd/system/mirage-learn.timer",
}
EXAMPLES = ("grafana", "prometheus", "nginx")
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", ".*_cache", "dist", "__pycache__")
_RUN_BY_DPKG = ("postinst", "postrm", "prerm")


def main() -> None:
    options = _options()
    source, out, work = (p.resolve() for p in (options.source, options.out, options.work))
    out.mkdir(parents=True, exist_ok=True)
    for name in options.package or BUILDERS:
        print(BUILDERS[name](source, out, work, level=options.level))


def build(source: Path, out: Path, work: Path, *, level: int) -> Path:
    """The package mirage of the checkout `source` in `out`; `work` keeps the environment for more.

    `level`: of zstd, 1 (seconds) to 19 (minutes, and smaller).
    """
    version, epoch = _version(source), _epoch(source)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(_dependencies(source, work), tree / SITE, copy_function=os.link)
    _lay_mirage(source, tree, work)
    _lay_environment(tree)
    _lay_files(tree)
    _lay_documents(source, tree / "usr/share/doc/mirage", version, epoch)
    _lay_manual(work / "source", tree / "usr/share/man")
    _control(tree, version, HERE / "files/control", HERE)
    return _pack(tree, out / f"mirage_{version}_amd64.deb", level)


def build_learn(source: Path, out: Path, work: Path, *, level: int) -> Path:
    """The package mirage-learn, as `build` makes mirage. It needs mirage of the same version."""
    version, epoch = _version(source), _epoch(source)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    tree = work / "learn-tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(_learn_dependencies(source, work), tree / LEARN_SITE, copy_function=os.link)
    (tree / SITE).mkdir(parents=True)
    # Relative: the packages also work unpacked somewhere else.
    (tree / SITE / "mirage-learn.pth").write_text(f"{os.path.relpath(LEARN_SITE, SITE)}\n")
    for name, place in LEARN_UNITS.items():
        _lay(HERE.parent / "systemd" / name, tree / place)
    documents = tree / "usr/share/doc/mirage-learn"
    _lay(HERE / "files/copyright", documents / "copyright")
    _lay_debian_changelog(documents, "mirage-learn", version, epoch)
    _control(tree, version, HERE / "learn/control", HERE / "learn")
    return _pack(tree, out / f"mirage-learn_{version}_amd64.deb", level)


BUILDERS = {"mirage": build, "mirage-learn": build_learn}


def _pack(tree: Path, package: Path, level: int) -> Path:
    _plain_modes(tree)
    _run("dpkg-deb", "--root-owner-group", "-Zzstd", f"-z{level}", "--build", tree, package)
    return package


def _dependencies(source: Path, work: Path) -> Path:
    return _copy_compiled(work / "dependencies", SITE, _requirements(source, EXTRAS))


def _learn_dependencies(source: Path, work: Path) -> Path:
    """What mirage does not bring."""
    wanted, brought = _requirements(source, LEARN_EXTRAS), _requirements(source, EXTRAS)
    return _copy_compiled(work / "learn-dependencies", LEARN_SITE, wanted, without=brought)


def _copy_compiled(
    ready: Path, installed: Path, wanted: Sequence[str], without: Sequence[str] = ()
) -> Path:
    """Compiled already; made once a `work`."""
    making = ready.with_suffix(".making")
    if not ready.exists():
        shutil.rmtree(making, ignore_errors=True)
        closure.copy(wanted, making, without=without)
        _compile(making, installed)
        making.rename(ready)
    return ready


def _requirements(source: Path, extras: Sequence[str]) -> list[str]:
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    more = (project["optional-dependencies"][extra] for extra in extras)
    wanted = [*project["dependencies"], *(word for words in more for word in words)]
    return [name for name in wanted if name != CLIENT]


def _lay_mirage(source: Path, tree: Path, work: Path) -> None:
    """Build and install both wheels; put the users' part, the plugin, at a short path."""
    copy, wheels, fresh = work / "source", work / "wheels", work / "mirage"
    for folder in (copy, wheels, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, copy, ignore=_LEFT_BEHIND)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    for folder in (copy / "slurm_plugin", copy):  # by pip, one would name the other's path
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels, cwd=folder)
    built = sorted(wheels.glob("*.whl"))
    _run(*pip, "install", "--no-deps", "--no-compile", "--no-index", "--target", fresh, *built)
    for name in ("direct_url.json", "RECORD"):  # they say where it was built
        for found in fresh.rglob(name):
            found.unlink()
    shutil.rmtree(fresh / "bin")
    plugin = LIB / "slurm_plugin"
    shutil.move(fresh / "mirage_slurm_plugin", tree / plugin)
    # Relative: the package also works unpacked somewhere else.
    (fresh / "mirage_slurm.pth").write_text(f"{os.path.relpath(plugin, SITE)}\n")
    _compile(fresh, SITE)
    _compile(tree / plugin, plugin)
    shutil.copytree(fresh, tree / SITE, dirs_exist_ok=True)


def _lay_environment(tree: Path) -> None:
    """Make a virtual environment as `python3 -m venv` does, without pip."""
    (tree / LIB / "bin").mkdir()
    (tree / LIB / "bin/python3").symlink_to(f"/usr/bin/{PYTHON}")
    told = "home = /usr/bin\ninclude-system-site-packages = false\n"
    (tree / LIB / "pyvenv.cfg").write_text(told)


def _lay_files(tree: Path) -> None:
    for name, place in PLACES.items():
        _lay(HERE / "files" / name, tree / place)
    for name, place in UNITS.items():
        _lay(HERE.parent / "systemd" / name, tree / place)
    for folder in EXAMPLES:
        target = tree / "usr/share/mirage" / folder
        shutil.copytree(HERE.parent / folder, target, ignore=_LEFT_BEHIND)


def _lay_documents(source: Path, place: Path, version: str, epoch: int) -> None:
    for page in sorted((source / "docs").rglob("*.md")):
        _lay(page, place / page.relative_to(source / "docs"))
    _gzip(place / "changelog.gz", (source / "CHANGELOG.md").read_bytes())
    _lay_debian_changelog(place, "mirage", version, epoch)


def _lay_debian_changelog(place: Path, name: str, version: str, epoch: int) -> None:
    when = datetime.fromtimestamp(epoch, tz=UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    told = f"{name} ({version}) stable; urgency=medium\n\n"
    told += "  * See /usr/share/doc/mirage/changelog.gz.\n\n"
    told += f" -- Mirage developers <mirage@localhost>  {when}\n"
    _gzip(place / "changelog.Debian.gz", told.encode())


def _lay_manual(source: Path, place: Path) -> None:
    """Write a manual page for each command with `mirage man`."""
    words = [sys.executable, "-m", "mirage", "man", str(place)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run(words, cwd=source, env=environment, capture_output=True, check=True)
    for page in sorted((place / "man1").iterdir()):
        _gzip(page.with_name(f"{page.name}.gz"), page.read_bytes())
        page.unlink()


def _control(tree: Path, version: str, template: Path, scripts: Path) -> None:
    """Write name, dependencies, the list of the admin's files, and the scripts that dpkg runs."""
    control = tree / "DEBIAN"
    control.mkdir()
    size_kib = sum(p.lstat().st_size for p in tree.rglob("*") if not p.is_dir()) // 1024
    text = template.read_text()
    (control / "control").write_text(text.format(version=version, size_kib=size_kib))
    conffiles = sorted(p for p in (tree / "etc").rglob("*") if p.is_file())
    (control / "conffiles").write_text("".join(f"/{p.relative_to(tree)}\n" for p in conffiles))
    for name in _RUN_BY_DPKG:
        _lay(scripts / name, control / name)


def _compile(folder: Path, installed: Path) -> None:
    """Compile bytecode that Python never checks against the sources."""
    # In one process: a file's bytes depend on the files that the process compiled before.
    words = ("-q", "-j1", "--invalidation-mode", "unchecked-hash")
    places = ("-s", folder, "-p", f"/{installed}")
    os.environ["PYTHONHASHSEED"] = "0"
    _run(sys.executable, "-m", "compileall", *words, *places, folder)


def _plain_modes(tree: Path) -> None:
    """Set modes whatever the umask. /etc/default/mirage may hold the database's password."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            runnable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runnable else 0o644)
    environment = tree / "etc/default/mirage"
    if environment.exists():
        environment.chmod(0o640)


def _lay(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, place)


def _gzip(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


def _version(source: Path) -> str:
    """Of the project, and when the commit was made: later commits are newer packages."""
    file = source / "slurm_plugin/mirage_slurm/command/version.py"
    made = datetime.fromtimestamp(_epoch(source), tz=UTC)
    return f"{runpy.run_path(str(file))['VERSION']}+{made:%Y%m%d.%H%M%S}"


def _epoch(source: Path) -> int:
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    words = ["git", "-C", str(source), "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the Debian packages.")
    parser.add_argument("--package", action="append", choices=BUILDERS, help="Only this one.")
    parser.add_argument("--source", type=Path, default=CHECKOUT, help="The checkout.")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "dist")
    parser.add_argument("--work", type=Path, default=CHECKOUT / "dist" / "work")
    parser.add_argument("--level", type=int, default=12, help="Of zstd, 1 to 19.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
