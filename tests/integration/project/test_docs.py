"""The documentation: its links hold, it loads nothing from elsewhere, its commands exist."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command, get_group

from mirage.cli import app as command_line
from tests.support.paths import CHECKOUT, DOCS

PAGES = [CHECKOUT / "README.md", *sorted({*DOCS.rglob("*.md")} - {*DOCS.glob("decisions/*")})]
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` makes it: a warning, such as of a link that leads nowhere, is an error."""
    into = tmp_path_factory.mktemp("docs")
    options = ["-q", "-W", "--keep-going", "-c", "docs", "-b", "html", "."]
    command = [sys.executable, "-m", "sphinx", *options, str(into)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in {"next", "prev", "index", "search", "canonical"}:
            return
        self.found += [given.get(LOADS[tag]) or ""] if tag in LOADS else []


def test_every_page_is_in_the_site_and_loads_nothing_from_elsewhere(built_site: Path) -> None:
    assert (built_site / "index.html").exists()
    for page in PAGES:
        made = built_site / page.relative_to(CHECKOUT).with_suffix(".html")
        parser = _Loads()
        parser.feed(made.read_text(encoding="utf-8"))
        assert parser.found
        assert [url for url in parser.found if re.match(r"(https?:)?//", url)] == []


_CALL = r"mirage(?:-as-service)? [a-z-][^`\n]*"
_BLOCK_CALL = re.compile(rf"^ *(?:\$ )?({_CALL})$", re.MULTILINE)
_INLINE_CALL = re.compile(rf"(?<!`)`({_CALL})`")


def commands() -> Iterator[tuple[str, str]]:
    """(page, call) of every call of mirage: in a block of code, indented, or in backquotes."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE)
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        indented = "\n".join(re.findall(r"^ {4,}.*$", prose, re.MULTILINE))
        calls = [c for code in (*blocks, indented) for c in _BLOCK_CALL.findall(code)]
        for call in calls + _INLINE_CALL.findall(prose):
            line = re.split(r" #|\||&&|;|[<>]|\[--|\.\.\.| -> ", call)[0].strip()
            if " " in line:
                yield page.name, line


_HISTORICAL = re.compile(r"git show ([0-9a-f]{8}):([\w./-]+)")
"""The mark of a figure whose program has left the tree: the commit and the file that repeat it."""


def test_what_a_page_says_shows_something_is_there() -> None:
    """Files of tests, and modules that print a figure or a table; or the page marks them."""
    told = re.compile(r"`(tests/[\w./-]+)`|python -m ((?:tests|benchmarks)(?:\.\w+)+)")
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        marked = {path for _, path in _HISTORICAL.findall(text)}
        for path, module in told.findall(text):
            named = path or f"{module.replace('.', '/')}.py"
            place = CHECKOUT / named
            if not place.exists() and not place.with_suffix("").exists() and named not in marked:
                missing.append(f"{page.name}: {path or module}")
    assert missing == []


def test_the_commit_of_a_historical_figure_has_its_program() -> None:
    pages = [*PAGES, *DOCS.glob("decisions/*.md")]
    marks = {m for page in pages for m in _HISTORICAL.findall(page.read_text(encoding="utf-8"))}
    git = ["git", "-C", str(CHECKOUT), "cat-file", "--batch-check"]
    commits = sorted({commit for commit, _ in marks})
    lines = "".join(f"{commit}\n" for commit in commits)
    answer = subprocess.run(git, input=lines, capture_output=True, text=True, check=False).stdout
    absent = [line for line in answer.splitlines() if line.endswith("missing")]
    if not answer or len(absent) == len(commits) or (CHECKOUT / ".git" / "shallow").exists():
        pytest.skip("a package or a shallow clone has no history")
    assert absent == [], "a commit that a page names wrongly"
    names = "".join(f"{commit}:{path}\n" for commit, path in sorted(marks))
    found = subprocess.run(git, input=names, capture_output=True, text=True, check=True).stdout
    assert [line for line in found.splitlines() if line.endswith("missing")] == []


@pytest.fixture(scope="module")
def whole() -> Any:
    """The command line as a group of the real commands, which it otherwise imports one by one."""
    group: Any = get_command(command_line.app)
    for name, (module, _) in command_line.COMMANDS.items():
        group.add_command(get_group(import_module(module).app).commands[name])
    return group


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_a_command_of_the_docs_is_one(page: str, line: str, whole: Any) -> None:
    node, place = whole, 0
    for word in shlex.split(line)[1:]:
        commands = getattr(node, "commands", {})
        options = {name for one in node.params for name in (*one.opts, *one.secondary_opts)}
        if commands and not word.startswith("-"):
            assert word in commands, f"{page}: {line}"
            node = commands[word]
        elif word.startswith("--"):
            assert word.partition("=")[0] in options | {"--help"}, f"{page}: {line}"
        elif not node.context_settings.get("allow_interspersed_args", True):
            return  # what follows is another program's
        else:
            place += 1
    assert place == 0 or not getattr(node, "commands", {})
