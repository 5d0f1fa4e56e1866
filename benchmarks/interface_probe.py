"""What the checkout on PYTHONPATH offers to people and programs, as JSON for `interfaces.py`.

    python interface_probe.py lists              every surface as a list of lines
    python interface_probe.py fill DB            make the database DB, and ask its REST API
    python interface_probe.py ask DB ANSWERS     bring DB to this schema, and ask what ANSWERS asked

It runs in checkouts before and after the modules moved, so it tries both names of a module.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

TREE = Path(os.environ["PYTHONPATH"])
PROSE = ("description", "summary", "examples", "example")
_BUILDERS = ("Table", "Column", "add_column", "create_table", "_create_table", "table_of", "_table")


def import_either(*names: str) -> Any:
    """The first module that the tree has; an installed checkout might have another."""
    for name in names:
        path = TREE.joinpath(*name.split("."))
        if path.is_dir() or path.with_suffix(".py").is_file():
            return import_module(name)
    raise ModuleNotFoundError(f"{TREE} has none of {names}")


def run_mirage(*words: str, **environ: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "mirage", *words],
        env=os.environ | environ,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def list_surfaces() -> dict[str, list[str]]:
    found = {
        "openapi.json": list_document(make_document()),
        "commands and options": list_commands(),
        "exit codes": list_exit_codes(),
        "columns of printed tables": list_printed_columns(),
        "metrics and labels": list_metrics(),
        "database columns": list_database_columns(),
        "configuration keys": list_configuration_keys(),
        "environment variables": list_words(r"\bMIRAGE_[A-Z_]*[A-Z]\b", "mirage", "slurm_plugin"),
        "options of sbatch": list_sbatch_options(),
        "verbs of links": list_link_verbs(),
        "names in importable plugin files": list_plugin_names(),
        "keys of log lines": list_log_keys(),
    }
    return {surface: sorted(set(lines)) for surface, lines in found.items()}


def make_document() -> Any:
    return import_either("tests.support.api.openapi_document", "tests.api.openapi_document").made()


def list_document(node: Any, where: str = "") -> Iterator[str]:
    """A line for each leaf. List elements have no number, and prose is left out."""
    if isinstance(node, dict):
        for key, inner in node.items():
            if key not in PROSE or isinstance(inner, dict):
                yield from list_document(inner, f"{where}.{key}")
    elif isinstance(node, list):
        for inner in node:
            name = inner.get("name", "") if isinstance(inner, dict) else ""
            yield from list_document(inner, f"{where}[{name}]")
    else:
        yield f"{where[1:]} = {node}"


def list_commands() -> Iterator[str]:
    from typer.main import get_command, get_group  # noqa: PLC0415 - the other modes need none

    from mirage.cli import app as command_line  # noqa: PLC0415

    yield from _list_command(get_command(command_line.app), "mirage", inner=False)
    for name, (module, _) in command_line.COMMANDS.items():
        command = get_group(import_module(module).app).commands[name]
        yield from _list_command(command, f"mirage {name}", inner=True)


def _list_command(command: Any, words: str, *, inner: bool) -> Iterator[str]:
    yield words
    for param in command.params:
        named = [*param.opts, *param.secondary_opts]
        if param.param_type_name == "argument":
            yield f"{words} {param.human_readable_name} ({param.nargs})"
        else:
            for name in named:
                yield f"{words} {name}" + ("" if param.is_flag else " VALUE")
    for name, one in getattr(command, "commands", {}).items() if inner else ():
        yield from _list_command(one, f"{words} {name}", inner=True)


def list_exit_codes() -> Iterator[str]:
    manual = import_either("mirage.cli.command_help", "mirage.cli.manual")
    for command, entry in manual.MANUAL.items():
        yield from (f"mirage {command}: {code}" for code in entry.exits)


def list_printed_columns() -> Iterator[str]:
    """Words that become heads of a table of rich."""
    for path, tree in _parse("mirage/cli"):
        module = ".".join(path.relative_to(TREE).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _get_called(node) in _BUILDERS:
                heads = [*map(_get_text, node.args)]
            elif _makes_heads(node):
                heads = _list_heads(node.iter, module)
            else:
                continue
            yield from (" ".join(head.split()) for head in heads if head.strip())


def _makes_heads(node: ast.AST) -> TypeGuard[ast.For | ast.comprehension]:
    if isinstance(node, ast.For):
        return "add_column" in ast.unparse(node)
    return isinstance(node, ast.comprehension) and "COLUMNS" in ast.unparse(node.iter)


def _list_heads(given: ast.expr, module: str) -> list[str]:
    """Texts of a tuple, or of the module's constant whose name is in the expression."""
    if isinstance(given, ast.Tuple):
        return [*map(_get_text, given.elts)]
    names = [node.id for node in ast.walk(given) if isinstance(node, ast.Name)]
    constants = [getattr(import_module(module), name, ()) for name in names]
    found = [
        one for constant in constants if isinstance(constant, (dict, tuple)) for one in constant
    ]
    return [str(one if isinstance(one, str) else one[0]) for one in found]


def list_metrics() -> Iterator[str]:
    for _, tree in _parse("mirage"):
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            if _get_called(call).endswith("MetricFamily"):
                labels = [ast.unparse(k.value) for k in call.keywords if k.arg == "labels"]
                kind = _get_called(call).removesuffix("MetricFamily")
                yield f"{ast.literal_eval(call.args[0])} {kind} {''.join(labels)}"


def list_database_columns() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mirage.db"
        upgrade_database(path)
        with closing(sqlite3.connect(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema "
                                                     "WHERE type = 'table'")]  # fmt: skip
            for table in tables:
                for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})"):
                    yield f"{table}.{name} {kind}"


def upgrade_database(path: Path) -> None:
    with tempfile.TemporaryDirectory() as empty:
        run_mirage("db", "upgrade", MIRAGE_DATABASE_URL=f"sqlite:///{path}", HOME=empty)


def list_configuration_keys() -> Iterator[str]:
    section = ""
    for line in run_mirage("config", "reference").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").strip("[]")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
            yield f"{section} {cells[1]} {cells[2]}, default {cells[4]}, {cells[6]}"


def list_words(pattern: str, *folders: str) -> Iterator[str]:
    for folder in folders:
        for path in sorted((TREE / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield from re.findall(pattern, path.read_text(errors="ignore"))


def list_sbatch_options() -> Iterator[str]:
    """Of the wrapper, and of the SPANK plugin, which calls them the same."""
    wrapper = [sys.executable, str(TREE / "slurm_plugin/sbatch"), "--mirage-help"]
    shown = subprocess.run(wrapper, capture_output=True, text=True, check=True).stdout
    yield from re.findall(r"^  (--mirage-[a-z-]+(?:=\S+)?)", shown, re.M)
    plugin = (TREE / "slurm_plugin/spank/mirage_spank.c").read_text()
    yield from (f"{name} (SPANK)" for name in re.findall(r'^\s*{ "(mirage-[a-z-]+)"', plugin, re.M))


def list_link_verbs() -> Iterator[str]:
    plugin = TREE / "slurm_plugin"
    for verb in re.findall(r"^#   mirage-link (\w+)", (plugin / "mirage-link").read_text(), re.M):
        yield f"mirage-link {verb}"
    for verb in re.findall(r"^(\w+):\*\)", (plugin / "carrier.sh").read_text(), re.M):
        yield f"carrier {verb}"
    verbs = _print_handover_help(plugin)
    for verb in re.findall(r"^    (\w+) ", verbs, re.M):
        for option in set(re.findall(r"--[a-z-]+", _print_handover_help(plugin, verb))):
            yield f"mirage-link handover {verb} {option}"


def _print_handover_help(plugin: Path, *verb: str) -> str:
    program = [str(plugin / "mirage-handover"), *verb, "--help"]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


def list_plugin_names() -> Iterator[str]:
    """Functions and classes of the modules that users import into their jobs."""
    plugin = TREE / "slurm_plugin"
    for path in sorted([*plugin.glob("mirage_handover*.py"), *plugin.glob("hooks/*.py")]):
        if path.stem == "mirage_handover_verbs":
            continue
        for node in ast.parse(path.read_text()).body:
            names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
            inner = node.body if isinstance(node, ast.ClassDef) else []
            names += [f"{names[0]}.{one.name}" for one in inner if isinstance(one, ast.FunctionDef)]
            yield from (f"{path.stem}.{name}" for name in names if "._" not in f".{name}")


def list_log_keys() -> Iterator[str]:
    for _, tree in _parse("mirage"):
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            held = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(held, ast.Name) and held.id in ("_log", "log", "logger"):
                yield from (keyword.arg for keyword in call.keywords if keyword.arg)


def _parse(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((TREE / folder).rglob("*.py")):
        yield path, ast.parse(path.read_text())


def _get_called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _get_text(node: ast.expr) -> str:
    """The constant text; empty for every other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def fill_and_ask(path: Path) -> dict[str, Any]:
    """Fill a new database as the tests of the pages do; the answers to every GET by URL."""
    seeded = import_either("tests.support.web.seeded", "tests.web.seeded")
    serving = import_either("tests.support.web.serving", "tests.web.serving").serving
    running = import_either("tests.support.api.running", "tests.api.running")
    urls = _list_urls(seeded.CHAIN)
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "template.db"
        upgrade_database(template)
        size = seeded.Size(60, 3000)
        place = Path(folder) / "site"
        place.mkdir()
        with serving(template, place, size, identify=running.identify) as site:
            with closing(sqlite3.connect(place / "mirage.db")) as db:
                db.execute("VACUUM INTO ?", (str(path),))
            return _ask(site, urls)


def _list_urls(chain: str) -> list[str]:
    model = sorted((TREE / "models").glob("*/[0-9]*"))[0]
    values = {"chain_id": chain, "version": model.name}
    asked = {"/api/v1/forecasts": "?partition=gpu&nodes=2&time_limit_s=43200"}
    return [
        path.format(**values, name="not-found" if "problems" in path else model.parent.name)
        + asked.get(path, "")
        for path, verbs in make_document()["paths"].items()
        if "get" in verbs and path not in ("/api/v1/events", "/metrics")
    ]


def ask_again(path: Path, urls: list[str]) -> dict[str, Any]:
    serve_database = import_module("tests.support.web.serving").serve_database
    running = import_module("tests.support.api.running")
    upgrade_database(path)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve_database(path, Path(folder), 1, users=(), identify=running.identify) as site,
    ):
        return _ask(site, urls)


def _ask(site: Any, urls: list[str]) -> dict[str, Any]:
    answers = {}
    for url in urls:
        for who in (None, "alice", "root"):
            answer = site.client.get(url, who=who)
            plain = answer.headers.get("content-type", "").endswith("json")
            body = answer.json() if plain else answer.text
            answers[f"{who or 'nobody'} GET {url}"] = {"status": answer.status_code, "body": body}
    return answers


def main(words: list[str]) -> int:
    if words[0] == "lists":
        made: Any = list_surfaces()
    elif words[0] == "fill":
        made = fill_and_ask(Path(words[1]))
    else:
        asked = json.loads(Path(words[2]).read_text())
        urls = list(dict.fromkeys(line.split(" GET ", 1)[1] for line in asked))
        made = ask_again(Path(words[1]), urls)
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
