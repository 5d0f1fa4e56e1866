"""Builds the RPM packages for EL 8, 9 and 10. Needs neither root, nor EL, nor its Python.

    python deploy/rpm/build_rpm.py --out dist      # `make rpm`; prints the packages' paths

The files are those of the Debian packages (deploy/deb/build.py), for the distribution's python3.12,
put where EL and SELinux expect them. Each NAME.spec says what its package requires, has and does,
and rpmbuild packs it. A commit gives the same packages, byte for byte.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "deb"))

import build as deb

PYTHON = "3.12"
"""In AppStream of EL 8.10 and 9.4, and the Python of EL 10."""
ONDEMAND = {
    "mirage/**/*": "etc/ood/config/plugins",
    "*.yml": "etc/ood/config/ondemand.d",
}
"""Files of deploy/ondemand, and where Open OnDemand looks for them."""


@dataclass(frozen=True)
class Order:
    """What is built, from which checkout, for which Python."""

    source: Path
    """The checkout."""
    out: Path
    work: Path
    """Keeps the wheels for more."""
    python: str
    level: int
    """Of zstd, 1 to 19."""


def main() -> None:
    options = _options()
    source, out, work = (p.resolve() for p in (options.source, options.out, options.work))
    out.mkdir(parents=True, exist_ok=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(deb.read_epoch(source))
    order = Order(source, out, work, options.python, options.level)
    # A checkout from before Open OnDemand's card has no folder of it.
    present = [n for n in TREES if n != "mirage-ondemand" or (source / "deploy/ondemand").is_dir()]
    for name in options.package or present:
        print(build(name, order), flush=True)


def build(name: str, order: Order) -> Path:
    """Lay the files of the package and pack them. Raises SystemExit."""
    tree = order.work / f"{name}-rpm"
    shutil.rmtree(tree, ignore_errors=True)
    TREES[name](order, tree)
    deb.lay_file(order.source / "LICENSE", tree / "usr/share/licenses" / name / "LICENSE")
    deb.plain_modes(tree)
    return _pack(name, tree, order)


def _lay_plugin(order: Order, tree: Path) -> None:
    """Lay the plugin below a bin/; its usual path leads there."""
    deb.lay_plugin(order.source, tree, order.work)
    place = deb.LIB / "bin" / deb.PLUGIN.name
    (tree / place).parent.mkdir()
    shutil.move(tree / deb.PLUGIN, tree / place)
    (tree / deb.PLUGIN).symlink_to(place.relative_to(deb.LIB))


def _lay_service(order: Order, tree: Path) -> None:
    deb.lay_service(order.source, tree, order.work, order.python)
    shutil.copytree(HERE / "selinux", tree / "usr/share/mirage/selinux")


def _lay_learning(order: Order, tree: Path) -> None:
    deb.lay_learning(order.source, tree, order.work, order.python)


def _lay_ondemand(order: Order, tree: Path) -> None:
    folder = order.source / "deploy/ondemand"
    for pattern, place in ONDEMAND.items():
        files = [path for path in folder.glob(pattern) if path.is_file()]
        if not files:
            raise SystemExit(f"{folder} has no {pattern}: mirage-ondemand would lack it")
        for file in files:
            deb.lay_file(file, tree / place / file.relative_to(folder))


TREES: dict[str, Callable[[Order, Path], None]] = {
    "mirage-plugin": _lay_plugin,
    "mirage": _lay_service,
    "mirage-learn": _lay_learning,
    "mirage-ondemand": _lay_ondemand,
}
_NOARCH = ("mirage-plugin", "mirage-ondemand")


def _pack(name: str, tree: Path, order: Order) -> Path:
    version, _, number = deb.read_version(order.source).partition("+")
    day = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), tz=UTC)
    arch = "noarch" if name in _NOARCH else "x86_64"
    values = {
        "upstream_version": version,
        "build_number": number,
        "build_day": f"{day:%a %b %d %Y}",
        "python": order.python,
        "tree": tree,
        "level": order.level,
        "_topdir": order.work / "rpmbuild",
        "_rpmdir": order.out,
        "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    }
    definitions = [f"--define={key} {value}" for key, value in values.items()]
    if shutil.which("rpmbuild") is None:
        raise SystemExit("rpmbuild is not installed: apt install rpm, or dnf install rpm-build")
    words = ["rpmbuild", "-bb", "--quiet", f"--load={HERE / 'macros'}"]
    deb.run(*words, *definitions, HERE / f"{name}.spec")
    return order.out / f"{name}-{version}-{number}.{arch}.rpm"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the RPM packages.")
    parser.add_argument("--package", action="append", choices=TREES, help="Only this one.")
    parser.add_argument("--python", default=PYTHON, help="The Python that runs the service.")
    parser.add_argument("--source", type=Path, default=deb.CHECKOUT, help="The checkout.")
    parser.add_argument("--out", type=Path, default=deb.CHECKOUT / "dist")
    parser.add_argument("--work", type=Path, default=deb.CHECKOUT / "dist" / "work")
    parser.add_argument("--level", type=int, default=12, help="Of zstd, 1 to 19.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
