"""Every string that a person meets, once: `python -m benchmarks.strings [FOLDER_OR_FILE...]`.

Prints FILE:LINE, the kind and the text, in the order in which a person meets Mirage: doctor, serve,
cluster import, training, sbatch, mirage-link, pages, mail, alerts. Without an argument the whole
product is listed. A text that stands in several places is printed once, at the first of them.

Taken from Python are the docstrings of commands and every literal of two words or more that is no
docstring (`{}` stands for a value, SQL is left out); from HTML templates the text between tags;
from shell and Lua the quoted texts; from YAML the summaries and descriptions of alerts.
"""

import argparse
import ast
import html
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STATIONS = (
    ("doctor", ("mirage/cli/admin/doctor.py", "mirage/studies/diagnostics")),
    ("serve", ("mirage/cli/admin/serve.py", "mirage/bootstrap", "mirage/config")),
    ("cluster import", ("mirage/cli/admin/cluster_import.py", "mirage/cluster", "mirage/traces")),
    ("an admin's commands", ("mirage/cli/admin",)),
    ("training", ("mirage/cli/policies", "mirage/cli/simulation", "mirage/studies")),
    ("other commands", ("mirage/cli",)),
    ("sbatch", ("slurm_plugin/sbatch", "slurm_plugin/mirage_wrapper", "slurm_plugin/carrier")),
    ("mirage-link and the hooks", ("slurm_plugin",)),
    ("pages", ("mirage/web",)),
    ("REST", ("mirage/api", "mirage/http")),
    ("mail", ("mirage/notify", "mirage/services/notify")),
    ("alerts", ("deploy/prometheus",)),
    ("the rest", ("mirage",)),
)
_COMMAND_DECORATORS = frozenset({"command", "callback"})
_PRINTED = frozenset({"echo", "print", "secho", "write", "add_column", "add_row"})
_LOGGED = frozenset({"debug", "info", "warning", "error", "exception"})
_SENTENCE = re.compile(r"[^\W\d]{2,}[,;:.]? [^\W\d]+|[^\W\d]+ [^\W\d]{2,}")
_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|PRAGMA)\b")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'')


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the product, its kind (help, error, print, log, text) and its line from 1."""

    line: int
    kind: str
    text: str


def list_texts(path: Path) -> list[Text]:
    """Return the texts of a file in the order of its lines; none of a kind that is not known."""
    source = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py" or source.startswith("#!/usr/bin/env python"):
        found = _Finder().find(source)
    elif path.suffix == ".html":
        found = list(_iter_template_texts(source))
    elif path.suffix in {".yml", ".yaml"}:
        found = list(_iter_alert_texts(source))
    elif path.suffix in {".sh", ".lua", ""}:
        found = list(_iter_quoted_texts(source))
    else:
        found = []
    return sorted(found, key=lambda each: each.line)


class _Finder(ast.NodeVisitor):
    """Collects the texts of a module, each with the kind of what it is given to."""

    def __init__(self) -> None:
        self._found: list[Text] = []
        self._kind = "text"

    def find(self, source: str) -> list[Text]:
        self.visit(ast.parse(source))
        return self._found

    def visit_Expr(self, node: ast.Expr) -> None:
        # A literal that stands alone explains the code, not the product.
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        names = {name for each in node.decorator_list if (name := _get_method_called(each))}
        if names & _COMMAND_DECORATORS and (text := ast.get_docstring(node)):
            self._found.append(Text(node.body[0].lineno, "help", text))
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._visit_as("error", node)

    def visit_keyword(self, node: ast.keyword) -> None:
        kind = "help" if node.arg in {"help", "description", "epilog"} else self._kind
        self._visit_as(kind, node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        kind = "print" if name in _PRINTED else "log" if name in _LOGGED else self._kind
        self._visit_as(kind, node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(node.lineno, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._add(node.lineno, "".join(_render_part(part) for part in node.values))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _visit_as(self, kind: str, node: ast.AST) -> None:
        before, self._kind = self._kind, kind
        self.generic_visit(node)
        self._kind = before

    def _add(self, line: int, text: str) -> None:
        if _SENTENCE.search(text) and not _SQL.match(text):
            self._found.append(Text(line, self._kind, text))


def _get_method_called(node: ast.expr) -> str | None:
    called = node.func if isinstance(node, ast.Call) else None
    return called.attr if isinstance(called, ast.Attribute) else None


def _render_part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def _iter_template_texts(source: str) -> Iterator[Text]:
    """Yield the text between tags, and the titles and labels within them."""
    hidden = r"\{#.*?#\}|<(style|script)\b.*?</\1>|\{\{.*?\}\}|\{%.*?%\}"
    source = re.sub(hidden, _hide, source, flags=re.DOTALL)
    attributes = re.compile(r'(?:title|aria-label|placeholder|alt|content)="([^"]*)"')
    between = re.compile(r"(?:^|[>\0])([^<>\0]*)(?=[<\0]|\Z)")
    for pattern in (between, attributes):
        for found in pattern.finditer(source):
            if _SENTENCE.search(found[1]):
                start = found.start(1) + len(found[1]) - len(found[1].lstrip())
                yield Text(source.count("\n", 0, start) + 1, "page", html.unescape(found[1]))


def _hide(found: re.Match[str]) -> str:
    """Return the same lines: `{}` for a value, a boundary of texts for anything else."""
    return ("{}" if found[0].startswith("{{") else "\0") + "\n" * found[0].count("\n")


def _iter_alert_texts(source: str) -> Iterator[Text]:
    for found in re.finditer(r"^( +)(?:summary|description): (.*\n(?:\1 +.*\n)*)", source, re.M):
        text = re.sub(r"^>-?\n", "", found[2])
        yield Text(source.count("\n", 0, found.start()) + 1, "alert", text)


def _iter_quoted_texts(source: str) -> Iterator[Text]:
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith(("#", "--")):
            continue
        for found in _QUOTED.finditer(line):
            text = found[1] or found[2] or ""
            if _SENTENCE.search(text):
                yield Text(number, "shell", text)


def list_files(arguments: list[str]) -> list[Path]:
    """Return the files of the product that git knows, in those folders if there are any."""
    folders = arguments or ["mirage", "slurm_plugin", "deploy/prometheus"]
    listed = subprocess.run(
        ["git", "ls-files", *folders], text=True, capture_output=True, check=True
    )
    return [Path(name) for name in listed.stdout.splitlines() if not name.endswith(".test.yml")]


def group_by_station(files: list[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yield each station of a person's way with its files, each file at its first station."""
    left = list(files)
    for name, prefixes in STATIONS:
        taken = [path for path in left if str(path).startswith(prefixes)]
        taken.sort(key=lambda path: [str(path).startswith(prefix) for prefix in prefixes][::-1])
        left = [path for path in left if path not in taken]
        yield name, taken
    yield "elsewhere", left


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="*", help="a folder or file; default: the whole product")
    seen: set[str] = set()
    for station, files in group_by_station(list_files(parser.parse_args().folder)):
        heading = f"# {station}\n"
        for path in files:
            for each in list_texts(path):
                text = " ".join(each.text.split())
                if text not in seen:
                    seen.add(text)
                    print(f"{heading}{path}:{each.line} [{each.kind}] {text}")
                    heading = ""


if __name__ == "__main__":
    main()
