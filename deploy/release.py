"""Makes a release: version, changelog, commit, tag, and a site's packages and checksums in dist/.

    make release VERSION=0.2.0                # DRY_RUN=1 prints the steps, and changes nothing

It pushes nothing. If a release stopped half way, run the same command again: it goes on.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
VERSION_FILE = "slurm_plugin/mirage_slurm/command/version.py"
"""It has the version of both distributions."""
CHANGELOG = "CHANGELOG.md"
DISTRIBUTIONS = {"mirage_slurm": "slurm_plugin", "mirage_provisioner": "."}
"""By name in files: the folder that each is built from."""
UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_MOST_NAMED = 3
_PROMISE = re.compile(r"^These changes become (\S+)\. ", re.MULTILINE)
_SHOWING = re.compile(r"^(deploy|docs/admin)/.*\.(md|ya?ml)$")
"""Files that name packages and images with their version."""
_DEBS = (
    "mirage-plugin_{0}_all.deb",
    *(
        f"{name}_{{0}}~{release}_amd64.deb"
        for name in ("mirage", "mirage-learn")
        for release in ("debian12", "debian13")
    ),
)
"""By version and time of the commit."""


class NotReadyError(Exception):
    """The release cannot be made; its text says why, and what mends it."""


@dataclass(frozen=True)
class Release:
    """What is released, from which version, and when."""

    version: str
    before: str
    on: date

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    @property
    def message(self) -> str:
        return f"Release {self.version}"


def edit(texts: Mapping[str, str], release: Release) -> dict[str, str]:
    """The files of a checkout that a release changes, by path, with their new text.

    `texts`: of the last commit, by path. Raises NotReadyError.
    """
    new = {name: with_names(text, release) for name, text in texts.items() if _SHOWING.match(name)}
    new[VERSION_FILE] = with_version(texts[VERSION_FILE], release)
    new[CHANGELOG] = with_section(texts[CHANGELOG], release)
    return {name: text for name, text in new.items() if text != texts[name]}


def with_version(text: str, release: Release) -> str:
    """The file of the version with the new one."""
    if _numbers(release.version) <= _numbers(release.before):
        raise NotReadyError(
            f"{release.version} is not newer than {release.before}, the version in {VERSION_FILE}: "
            "give a newer one, as in make release VERSION=0.2.0"
        )
    return text.replace(f'\nVERSION = "{release.before}"\n', f'\nVERSION = "{release.version}"\n')


def read_version(text: str) -> str:
    """The version that the file of the version has. Raises NotReadyError."""
    match = re.search(r'^VERSION = "(.+)"$', text, re.MULTILINE)
    if match is None:
        raise NotReadyError(f'{VERSION_FILE} has no line VERSION = "...": restore it')
    return match[1]


def with_section(changelog: str, release: Release) -> str:
    """The changelog whose unreleased entries are the release's, below a new empty section."""
    head, heading, rest = changelog.partition(UNRELEASED)
    if not heading:
        raise NotReadyError(f"{CHANGELOG} has no line '## Unreleased': add it above the releases")
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    if not re.search(r"^- ", section, re.MULTILINE):
        raise NotReadyError(
            f"{CHANGELOG} has no entry under 'Unreleased': say there what changed, and commit it"
        )
    promised = _PROMISE.search(section)
    if promised and promised[1] != release.version:
        raise NotReadyError(
            f"{CHANGELOG} says 'These changes become {promised[1]}': mend the sentence, "
            f"or run make release VERSION={promised[1]}"
        )
    dated = f"## {release.version} - {release.on.isoformat()}\n"
    return f"{head}{UNRELEASED}\n{dated}{_PROMISE.sub('', rest, count=1) if promised else rest}"


def with_names(text: str, release: Release) -> str:
    """A page or a file of containers that names the packages and the image of the release."""
    old = re.escape(release.before)
    name = rf"(\bmirage(?:-[a-z]+)?(?:[_:]|(?= \({old}\+) \()){old}\b"
    return re.sub(name, rf"\g<1>{release.version}", text)


def checksums(files: Mapping[str, bytes]) -> str:
    """Lines as `sha256sum --check` reads them, by name."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(files.items())
    )


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise NotReadyError(
            f"{version!r} is no version: give three numbers, as in make release VERSION=0.2.0"
        )
    return tuple(map(int, match.groups()))


class Checkout:
    """A git checkout, asked and changed by git alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: str) -> str:
        """What git prints. Raises NotReadyError with what git says if it fails."""
        try:
            process = subprocess.run(
                ["git", "-C", str(self.folder), *words], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise NotReadyError("git is not installed: apt-get install git") from None
        if process.returncode:
            raise NotReadyError(
                f"git {words[0]} failed: {(process.stderr or process.stdout).strip()}"
            )
        return process.stdout

    def committed(self) -> dict[str, str]:
        """What a release may change, as the last commit has it, by path."""
        names = self.git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
        paths = [
            name for name in names if name in {VERSION_FILE, CHANGELOG} or _SHOWING.match(name)
        ]
        return {name: self.git("show", f"HEAD:{name}") for name in paths}

    def changed(self) -> set[str]:
        """Paths that differ from the last commit, untracked ones among them."""
        status = self.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        return {line[3:] for line in status.split("\0") if line}

    def has(self, name: str, text: str) -> bool:
        path = self.folder / name
        return path.is_file() and path.read_text() == text

    def dated(self, version: str) -> date | None:
        """The date that an earlier try gave this version in the changelog, or None."""
        path = self.folder / CHANGELOG
        text = path.read_text() if path.is_file() else ""
        match = re.search(rf"^## {re.escape(version)} - (\d{{4}}-\d\d-\d\d)$", text, re.MULTILINE)
        try:
            return date.fromisoformat(match[1]) if match else None
        except ValueError:
            return None

    def tagged(self, tag: str) -> str | None:
        """The commit of a tag, or None."""
        commit_format = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)"
        return self.git("tag", "--list", tag, f"--format={commit_format}").strip() or None


def release(checkout: Checkout, version: str, *, on: date, dry_run: bool) -> None:
    """Commit and tag what is released, unless that is done. Raises NotReadyError."""
    texts = checkout.committed()
    before = read_version(texts[VERSION_FILE])
    one = Release(version, before, checkout.dated(version) or on)
    head = checkout.git("rev-parse", "HEAD").strip()
    tagged = checkout.tagged(one.tag)
    if tagged is not None and tagged != head:
        raise NotReadyError(
            f"{one.tag} is released already, as commit {tagged[:12]}: give a newer version, "
            f"or build it again after git checkout {one.tag}"
        )
    last_message = checkout.git("log", "-1", "--format=%s").strip()
    committed = before == version and (tagged is not None or last_message == one.message)
    new = {} if committed else edit(texts, one)
    _refuse_other_changes(checkout, new)
    if new:
        _say(dry_run, f"change {', '.join(sorted(new))}, and commit: {one.message}")
        if not dry_run:
            _commit(checkout, new, one)
    if tagged is None:
        _say(dry_run, f"tag {one.tag}")
        if not dry_run:
            checkout.git("tag", "--annotate", one.tag, "--message", f"Mirage {version}")


def _refuse_other_changes(checkout: Checkout, new: Mapping[str, str]) -> None:
    """Changes that this release would make are fine: an earlier try was stopped after them."""
    others = sorted(
        name for name in checkout.changed() if name not in new or not checkout.has(name, new[name])
    )
    if others:
        names = ", ".join(others[:_MOST_NAMED])
        more = len(others) - _MOST_NAMED
        raise NotReadyError(
            f"the checkout has changes that are not committed: {names}"
            f"{f' and {more} more' if more > 0 else ''}. "
            "Commit them, or put them aside with git stash --include-untracked"
        )


def _commit(checkout: Checkout, new: Mapping[str, str], one: Release) -> None:
    for name, text in new.items():
        (checkout.folder / name).write_text(text)
    checkout.git("add", "--", *new)
    checkout.git("commit", "--no-verify", "--message", one.message)


def build(checkout: Checkout, version: str, *, deb: bool, dry_run: bool) -> None:
    """Wheels, source archives and the Debian packages in dist/, and their checksums.

    Raises NotReadyError.
    """
    dist = checkout.folder / "dist"
    what = f"the wheels and source archives of {' and '.join(DISTRIBUTIONS)}"
    _say(dry_run, f"build {what}{', and the Debian packages,' * deb} in {dist}")
    _say(dry_run, f"write {dist / 'SHA256SUMS'}")
    if dry_run:
        return
    epoch = int(checkout.git("log", "-1", "--format=%ct"))
    (dist / "SHA256SUMS").unlink(missing_ok=True)  # of another build, and so of other files
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    for folder in DISTRIBUTIONS.values():
        words = (sys.executable, "-m", "hatchling", "build", "--directory", str(dist))
        _run(checkout, *words, folder=folder)
    if deb:  # make brings the environment to the new version before it builds
        _run(checkout, "make", "deb")
    stamp = f"{datetime.fromtimestamp(epoch, tz=UTC):%Y%m%d.%H%M%S}"
    names = [
        *(f"{name}-{version}-py3-none-any.whl" for name in DISTRIBUTIONS),
        *(f"{name}-{version}.tar.gz" for name in DISTRIBUTIONS),
        *(name.format(f"{version}+{stamp}") for name in _DEBS if deb),
    ]
    if missing := [name for name in names if not (dist / name).is_file()]:
        raise NotReadyError(f"{missing[0]} was not built: look at what stands in {dist}")
    (dist / "SHA256SUMS").write_text(checksums({n: (dist / n).read_bytes() for n in names}))


def _run(checkout: Checkout, *words: str, folder: str = ".") -> None:
    process = subprocess.run(
        words, cwd=checkout.folder / folder, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise NotReadyError(
            f"{' '.join(words)} failed: {(process.stderr or process.stdout).strip()}\n"
            "Mend that, then run the same release again: it goes on from here"
        )


def _say(dry_run: bool, what: str) -> None:
    print(f"would {what}" if dry_run else what, flush=True)


def main() -> None:
    options = _options()
    checkout = Checkout(options.checkout.resolve())
    try:
        today = datetime.now(UTC).date()
        release(checkout, options.version, on=today, dry_run=options.dry_run)
        build(checkout, options.version, deb=not options.without_deb, dry_run=options.dry_run)
    except NotReadyError as error:
        raise SystemExit(f"release: {error}") from None
    if not options.dry_run:
        print(f"Look at it, then: git push origin HEAD v{options.version}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make a release.")
    parser.add_argument("version", help="Three numbers: 0.2.0.")
    parser.add_argument("--dry-run", action="store_true", help="Check and say, change nothing.")
    parser.add_argument("--without-deb", action="store_true", help="No Debian package.")
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, help="The checkout.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
