"""Whoever breaks clients of REST says so: each commit's document against its parent's."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.api.openapi_said import (
    CHANGELOG,
    DOCUMENT,
    RULE,
    SAYING,
    add_sentences,
    list_unsaid_changes,
)
from tests.support.paths import CHECKOUT

NOTHING_SAID = "# Changelog\n\n## Unreleased\n\n### Added\n\n- More.\n\n## 0.1.0\n\n- All.\n"
GONE = "GET /jobs is gone"


def document(*paths: str) -> str:
    """Of GET of these."""
    operation = {"operationId": "x", "responses": {}}
    made: dict[str, Any] = {"paths": {path: {"get": operation} for path in paths}}
    return json.dumps(made)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    return tmp_path


def git(repo: Path, *words: str) -> str:
    by = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    argv = ["git", "-C", str(repo), *by, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def commit(repo: Path, *paths: str, changelog: str = NOTHING_SAID, rule: bool = True) -> None:
    """The document with these paths, committed."""
    for name, text in ((DOCUMENT, document(*paths)), (CHANGELOG, changelog), (RULE, "")):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text or '"""The rule."""\n')
    if not rule:
        (repo / RULE).unlink()
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "--message=x")


def test_this_checkout_says_what_it_breaks() -> None:
    found = list_unsaid_changes(CHECKOUT)
    assert found == [], (
        "a change of docs/openapi.json breaks clients: undo it, or write the document with "
        f"`python -m tests.support.api.openapi_document --break`, which says so in {CHANGELOG}"
    )


def test_a_commit_that_breaks_its_parents_clients_is_named(repo: Path) -> None:
    commit(repo, "/jobs", "/chains")
    commit(repo, "/chains")
    (found,) = list_unsaid_changes(repo)
    assert git(repo, "rev-parse", "HEAD").startswith(found.where)
    assert found.unsaid == [GONE]
    commit(repo, "/chains", changelog=add_sentences(NOTHING_SAID, [GONE]))
    assert list_unsaid_changes(repo) == [found], "said one commit later, it broke unsaid"


def test_what_is_said_may_break(repo: Path) -> None:
    commit(repo, "/jobs", "/chains")
    commit(repo, "/chains", changelog=add_sentences(NOTHING_SAID, [GONE]))
    assert list_unsaid_changes(repo) == []
    # Said of an older version, it is not said of this one.
    commit(repo, "/jobs", "/chains")
    released = add_sentences(NOTHING_SAID, [GONE]).replace(
        "## Unreleased", "## Unreleased\n\n## 0.2.0"
    )
    commit(repo, "/chains", changelog=released)
    assert [change.unsaid for change in list_unsaid_changes(repo)] == [[GONE]]


def test_the_working_tree_is_held_against_the_last_commit(repo: Path) -> None:
    commit(repo, "/jobs", "/chains")
    (repo / DOCUMENT).write_text(document("/chains"))
    assert [(c.where, c.unsaid) for c in list_unsaid_changes(repo)] == [
        ("the working tree", [GONE])
    ]


def test_a_merge_is_held_against_what_it_came_to(repo: Path) -> None:
    commit(repo, "/chains")
    git(repo, "switch", "--quiet", "--create", "more")
    commit(repo, "/chains", "/jobs")
    commit(repo, "/chains", "/tokens")  # what it takes back nobody has had
    git(repo, "switch", "--quiet", "main")
    git(repo, "merge", "--quiet", "--no-ff", "more", "--message=y")
    assert list_unsaid_changes(repo) == []


def test_commits_before_the_rule_had_to_say_nothing(repo: Path) -> None:
    commit(repo, "/jobs", "/chains", rule=False)
    commit(repo, "/chains", rule=False)
    commit(repo, "/chains", "/tokens")
    commit(repo, "/chains", "/tokens", "/more")
    assert list_unsaid_changes(repo) == []


def test_without_a_parent_there_is_nothing_to_compare_with(repo: Path, tmp_path: Path) -> None:
    (repo / DOCUMENT).parent.mkdir()
    (repo / DOCUMENT).write_text(document("/chains"))
    (repo / CHANGELOG).write_text(NOTHING_SAID)
    assert list_unsaid_changes(repo) == [], "no commit yet"
    commit(repo, "/jobs", "/chains")
    assert list_unsaid_changes(repo) == [], "the first"
    commit(repo, "/chains")
    shallow = tmp_path / "shallow"
    git(repo, "clone", "--quiet", "--depth=1", f"file://{repo}", str(shallow))
    assert list_unsaid_changes(shallow) == []
    deeper = tmp_path / "deeper"
    git(repo, "clone", "--quiet", "--depth=2", f"file://{repo}", str(deeper))
    assert [change.unsaid for change in list_unsaid_changes(deeper)] == [[GONE]]


def test_a_break_is_said_once_and_among_what_is_changed() -> None:
    once = add_sentences(NOTHING_SAID, [GONE])
    assert once.count(SAYING + GONE) == 1
    assert add_sentences(once, [GONE]) == once
    twice = add_sentences(once, [GONE, "GET /more is gone"])
    assert twice.count("### Changed") == 1
    assert twice.index("GET /more is gone") < twice.index("## 0.1.0")
