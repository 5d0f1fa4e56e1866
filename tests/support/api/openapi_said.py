"""Breaking changes of the committed OpenAPI document, and whether the changelog says them.

Commit by commit, as each says what it breaks in its own changelog: of the working tree, of the last
commit against its parent, and of those before it for as long as this rule stands. Where git does
not know a parent (a shallow clone's last, a folder without git) there is nothing to compare with.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.api.openapi_breaking import breaking

DOCUMENT, CHANGELOG = "docs/openapi.json", "CHANGELOG.md"
RULE = "tests/support/api/openapi_said.py"
"""A commit before it had to say nothing."""
SAYING = "- REST, breaking: "
COMMITS = 20
"""That changed the document, at most: what a landing brings together."""
_UNRELEASED = "## Unreleased\n"
_CHANGED = "### Changed\n"


class Change(NamedTuple):
    where: str
    """A commit, or the working tree."""
    broken: list[str]
    """What is not said of it."""


def said(changelog: str) -> str:
    """What the changelog says of the version to come."""
    return changelog.partition(_UNRELEASED)[2].partition("\n## ")[0]


def saying(changelog: str, sentences: list[str]) -> str:
    """The changelog with these said, too."""
    missing = [s for s in sentences if SAYING + s not in said(changelog).splitlines()]
    lines = "".join(f"{SAYING}{sentence}\n" for sentence in missing)
    if not missing:
        return changelog
    before, unreleased, after = changelog.partition(_UNRELEASED)
    if _CHANGED in said(changelog):
        head, changed, rest = after.partition(_CHANGED + "\n")
        return before + unreleased + head + changed + lines + rest
    return f"{before}{_UNRELEASED}\n{_CHANGED}\n{lines}{after}"


def unsaid(repo: Path) -> list[Change]:
    """The newest first; none: whoever breaks clients says so."""
    found = []
    new, told = (repo / DOCUMENT).read_text(), (repo / CHANGELOG).read_text()
    if head := _git(repo, "rev-parse", "--verify", "--quiet", "HEAD").strip():
        found.append(Change("the working tree", _unsaid(_at(repo, head, DOCUMENT), new, told)))
    for commit in _commits(repo):
        parent = _git(repo, "rev-parse", "--verify", "--quiet", f"{commit}^").strip()
        if parent and (_at(repo, parent, RULE) or commit == head):
            old, new = _at(repo, parent, DOCUMENT), _at(repo, commit, DOCUMENT)
            found.append(Change(commit[:12], _unsaid(old, new, _at(repo, commit, CHANGELOG))))
    return [change for change in found if change.broken]


def _commits(repo: Path) -> list[str]:
    """Those of the first parents' line that changed the document; a merge as a whole."""
    words = ("rev-list", "--first-parent", f"--max-count={COMMITS}", "HEAD", "--", DOCUMENT)
    return _git(repo, *words).split()


def _unsaid(old: str, new: str, changelog: str) -> list[str]:
    if not old or not new or old == new:
        return []
    lines = said(changelog).splitlines()
    before: dict[str, Any] = json.loads(old)
    return [s for s in breaking(before, json.loads(new)) if SAYING + s not in lines]


def _at(repo: Path, commit: str, path: str) -> str:
    """Empty where that commit has no such file."""
    return _git(repo, "show", f"{commit}:{path}")


def _git(repo: Path, *words: str) -> str:
    """Empty where git has no answer, and where there is no git."""
    # A checkout of somebody else's (CI runs as root) is read all the same: nothing of it is run.
    argv = ["git", "-c", f"safe.directory={repo}", "-C", str(repo), *words]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
