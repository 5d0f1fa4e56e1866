"""Finds breaking changes of the committed OpenAPI document that the changelog does not mention.

The working tree is compared with the last commit, and each commit with its parent and with its own
changelog, back to the commit that introduced this rule. If git does not know a parent (the last
commit of a shallow clone, a folder without git), that commit is not compared.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.api.openapi_breaking import list_breaks

DOCUMENT, CHANGELOG = "docs/openapi.json", "CHANGELOG.md"
RULE = "tests/support/api/openapi_said.py"
"""Commits without this file need no line in the changelog."""
SAYING = "- REST, breaking: "
COMMITS = 20
"""The most commits that are compared, of those that changed the document."""
_UNRELEASED_HEADING = "## Unreleased\n"
_CHANGED_HEADING = "### Changed\n"


class Change(NamedTuple):
    where: str
    """A commit's short hash, or "the working tree"."""
    unsaid: list[str]
    """The breaks that its changelog does not mention, a sentence each."""


def read_unreleased(changelog: str) -> str:
    """Return the section of the changelog on the version to come."""
    return changelog.partition(_UNRELEASED_HEADING)[2].partition("\n## ")[0]


def add_sentences(changelog: str, sentences: list[str]) -> str:
    """Return the changelog with a line for each of the sentences, which it may have already."""
    missing = [s for s in sentences if SAYING + s not in read_unreleased(changelog).splitlines()]
    lines = "".join(f"{SAYING}{sentence}\n" for sentence in missing)
    if not missing:
        return changelog
    before, unreleased, after = changelog.partition(_UNRELEASED_HEADING)
    if _CHANGED_HEADING in read_unreleased(changelog):
        head, changed, rest = after.partition(_CHANGED_HEADING + "\n")
        return before + unreleased + head + changed + lines + rest
    return f"{before}{_UNRELEASED_HEADING}\n{_CHANGED_HEADING}\n{lines}{after}"


def list_unsaid_changes(repo: Path) -> list[Change]:
    """Return the changes with breaks that no changelog mentions, the newest first."""
    changes = []
    new, changelog = (repo / DOCUMENT).read_text(), (repo / CHANGELOG).read_text()
    if head := _run_git(repo, "rev-parse", "--verify", "--quiet", "HEAD").strip():
        changes.append(
            Change(
                "the working tree",
                _list_unsaid_breaks(_read_file(repo, head, DOCUMENT), new, changelog),
            )
        )
    for commit in _list_commits(repo):
        parent = _run_git(repo, "rev-parse", "--verify", "--quiet", f"{commit}^").strip()
        if parent and (_read_file(repo, parent, RULE) or commit == head):
            old, new = _read_file(repo, parent, DOCUMENT), _read_file(repo, commit, DOCUMENT)
            changes.append(
                Change(
                    commit[:12], _list_unsaid_breaks(old, new, _read_file(repo, commit, CHANGELOG))
                )
            )
    return [change for change in changes if change.unsaid]


def _list_commits(repo: Path) -> list[str]:
    """List the commits that changed the document, along first parents: a merge counts once."""
    words = ("rev-list", "--first-parent", f"--max-count={COMMITS}", "HEAD", "--", DOCUMENT)
    return _run_git(repo, *words).split()


def _list_unsaid_breaks(old: str, new: str, changelog: str) -> list[str]:
    if not old or not new or old == new:
        return []
    lines = read_unreleased(changelog).splitlines()
    before: dict[str, Any] = json.loads(old)
    return [s for s in list_breaks(before, json.loads(new)) if SAYING + s not in lines]


def _read_file(repo: Path, commit: str, path: str) -> str:
    """Return the file at that commit; empty if the commit has no such file."""
    return _run_git(repo, "show", f"{commit}:{path}")


def _run_git(repo: Path, *words: str) -> str:
    """Return the output of a git command; empty if it fails or git is not installed."""
    # Git refuses a checkout that another user owns, as in CI, which runs as root. These commands
    # only read, so the checkout counts as safe.
    argv = ["git", "-c", f"safe.directory={repo}", "-C", str(repo), *words]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
