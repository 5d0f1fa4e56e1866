"""The release script in a clone of its own: commit, tag, packages; and again where it stopped."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.slow

SCRIPT = CHECKOUT / "deploy" / "release.py"
VERSION = "99.0.0"


class Clone:
    """The files of this checkout, as the first commit of a repository of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        told = subprocess.run(
            ["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True
        )
        for name in filter(None, told.stdout.split("\0")):
            if not name.startswith(("docs/", "tests/")) or name.startswith("docs/admin/"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(CHECKOUT / name, folder / name)
        changelog = folder / "CHANGELOG.md"
        text = changelog.read_text().replace("These changes become 0.2.0. ", "")
        changelog.write_text(text.replace("## Unreleased\n", "## Unreleased\n\n- One more.\n", 1))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Nobody")
        self.git("config", "user.email", "nobody@localhost")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "First")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def release(self, *options: str, version: str = VERSION) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(SCRIPT), version, "--without-deb", "--checkout"]
        return subprocess.run(
            [*words, str(self.folder), *options], capture_output=True, text=True, check=False
        )


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    folder = tmp_path / "mirage"
    folder.mkdir()
    return Clone(folder)


def test_a_release_is_a_commit_a_tag_and_packages_with_their_sums(clone: Clone) -> None:
    before = clone.git("rev-parse", "HEAD")
    would = clone.release("--dry-run")
    assert (would.returncode, would.stderr) == (0, "")
    assert {line.split()[0] for line in would.stdout.splitlines()} == {"would"}
    assert clone.git("rev-parse", "HEAD") == before
    assert clone.git("status", "--porcelain") + clone.git("tag") == ""
    assert not (clone.folder / "dist").exists()

    # It stopped once after it wrote one file of those that it changes.
    file = clone.folder / "slurm_plugin/mirage_slurm/command/version.py"
    version = next(x for x in file.read_text().splitlines() if x.startswith("VERSION = "))
    file.write_text(file.read_text().replace(version, f'VERSION = "{VERSION}"'))
    done = clone.release()
    assert done.returncode == 0, done.stderr
    assert clone.git("log", "-2", "--format=%s") == f"Release {VERSION}\nFirst"
    assert clone.git("status", "--porcelain") == ""
    assert clone.git("cat-file", "-t", f"v{VERSION}") == "tag"
    assert clone.git("rev-parse", f"v{VERSION}^{{commit}}") == clone.git("rev-parse", "HEAD")
    changelog = (clone.folder / "CHANGELOG.md").read_text()
    assert f"## Unreleased\n\n## {VERSION} - 20" in changelog
    assert (
        f"localhost/mirage:{VERSION}\n"
        in (clone.folder / "deploy/container/compose.yaml").read_text()
    )
    sums = told(clone.folder / "dist")
    name = f"mirage_provisioner-{VERSION}"
    client = f"mirage_slurm-{VERSION}"
    wheel, source = f"{name}-py3-none-any.whl", f"{name}.tar.gz"
    assert set(sums) == {wheel, source, f"{client}-py3-none-any.whl", f"{client}.tar.gz"}
    with zipfile.ZipFile(clone.folder / "dist" / wheel) as archive:
        metadata = archive.read(f"{name}.dist-info/METADATA").decode()
    assert f"Requires-Dist: mirage-slurm=={VERSION}\n" in metadata, "as an index has it"
    with tarfile.open(clone.folder / "dist" / source) as archive:
        assert f"{name}/pyproject.toml" in archive.getnames()
    check = [sys.executable, "-m", "twine", "check", "--strict"]
    files = [clone.folder / "dist" / each for each in sums]
    checked = subprocess.run([*check, *files], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("PASSED") == len(sums)

    # Again, as after a stop between the commit and the tag: one tag, no commit, the same bytes.
    clone.git("tag", "--delete", f"v{VERSION}")
    again = clone.release()
    assert again.returncode == 0, again.stderr
    assert clone.git("log", "-2", "--format=%s") == f"Release {VERSION}\nFirst"
    assert clone.git("tag") == f"v{VERSION}"
    assert told(clone.folder / "dist") == sums


def told(dist: Path) -> dict[str, str]:
    """The sums by name, which are those of the files."""
    lines = (line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines())
    sums = {name: digest for digest, name in lines}
    for name, digest in sums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    return sums


def test_a_release_says_why_it_cannot_be_made(clone: Clone) -> None:
    (clone.folder / "mirage" / "new.py").write_text("")
    refused = clone.release()
    assert refused.returncode == 1
    assert refused.stderr == (
        "release: the checkout has changes that are not committed: mirage/new.py. "
        "Commit them, or put them aside with git stash --include-untracked\n"
    )
    (clone.folder / "mirage" / "new.py").unlink()
    assert "give three numbers" in clone.release(version="next").stderr
    clone.git("tag", f"v{VERSION}")
    clone.git("commit", "--quiet", "--allow-empty", "--message", "Second")
    assert f"v{VERSION} is released already" in clone.release().stderr
    assert clone.git("log", "-1", "--format=%s") == "Second"
