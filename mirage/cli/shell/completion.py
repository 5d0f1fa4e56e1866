"""Completes words on Tab: reads the shell's line and prints suggestions without delay.

Typer's own completion imports the command's module, which takes a second or two. This module reads
the command tree from a file (`mirage.cli.shell.completion_tree`). It asks the service for chains
and partitions alone, and gives up after 0.2 s, so that the prompt never hangs.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any

from mirage.cli.connection import transport
from mirage.config.paths import get_models_dir
from mirage.config.policy_names import POLICY_NAMES

TREE = Path(__file__).with_name("completions.json")
VARIABLE = "_MIRAGE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")

PATIENCE = "MIRAGE_COMPLETION_S"
"""The environment variable with the seconds that the service may take."""
_PATIENCE_S = 0.2

_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""The form of values that may be suggested, since zsh evaluates suggestions."""

_STATES = {"pause": {"active"}, "resume": {"paused"}, "cancel": {"active", "paused"}}
"""By command: the states of the chains that the command can change."""

_KNOWN_STATES = {"active", "paused", "finished", "cancelled", "failed"}

CommandNode = dict[str, Any]
Suggestion = tuple[str, str]
"""A suggestion and what it means."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The shell's line: the words before the one to complete, and that incomplete word."""

    words: tuple[str, ...]
    incomplete: str


def run_completion(environ: Mapping[str, str]) -> int:
    """Answer a shell and return the exit code. No error prints a traceback into the prompt."""
    told, code = "", 1
    with suppress(Exception):
        told, code = respond_to_shell(environ)
    if told:
        sys.stdout.write(f"{told}\n")
    return code


def respond_to_shell(environ: Mapping[str, str]) -> tuple[str, int]:
    """Return (standard output, exit code) in the form that the shell expects."""
    shell = environ[VARIABLE].removeprefix("complete_")
    found = suggest_words(_parse_command_line(shell, environ))
    if shell == "bash":
        return "\n".join(value for value, _ in found), 0
    if shell == "zsh":
        # An unescaped colon of zsh's `_arguments` ends a field.
        told = "\n".join(
            f'"{v}":"{says.replace(":", chr(92) + ":")}"' if says else f'"{v}"' for v, says in found
        )
        return (f"_arguments '*: :(({told}))'" if found else "_files"), 0
    if environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", 0 if found else 1
    return "\n".join(f"{value}\t{says}".rstrip() for value, says in found), 0


def _parse_command_line(shell: str, environ: Mapping[str, str]) -> CommandLine:
    if shell == "bash":
        words = environ.get("COMP_WORDS", "").split("\n")
        words = _split_words(words[0]) if len(words) == 1 else words
        at = int(environ.get("COMP_CWORD") or 0)
        # Bash splits at "=": `--policy=x` are three words.
        incomplete = words[at] if at < len(words) else ""
        return CommandLine(tuple(words[1:at]), "" if incomplete == "=" else incomplete)
    text = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split_words(text)[1:]
    if words and not text.endswith(" "):
        return CommandLine(tuple(words[:-1]), words[-1])
    return CommandLine(tuple(words), "")


def _split_words(text: str) -> list[str]:
    """Split a line into words, even if a quote is not closed yet."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def suggest_words(line: CommandLine) -> list[Suggestion]:
    """Return the suggestions for the word at the cursor; none where a file is expected."""
    node, option, place = _walk_tree(json.loads(TREE.read_text(encoding="utf-8")), line.words)
    if node is None:
        return []
    name, equals, begun = line.incomplete.partition("=")
    if option is None and equals and name in node["options"]:
        found = _filter_by_prefix(_list_values(node["options"][name], line.words), begun)
        return [(f"{name}={value}", says) for value, says in found]
    words: Iterable[Suggestion]
    if option is not None:
        words = _list_values(option, line.words)
    elif line.incomplete.startswith("-"):
        words = [(name, about["help"]) for name, about in node["options"].items()]
    elif node["commands"]:
        words = [(name, command["help"]) for name, command in node["commands"].items()]
    else:
        words = _list_values(_get_argument(node, place), line.words)
    return _filter_by_prefix(words, line.incomplete)


def _get_argument(node: CommandNode, place: int) -> CommandNode:
    arguments = node["arguments"]
    if place < len(arguments):
        return dict(arguments[place])
    return dict(arguments[-1]) if arguments and arguments[-1]["many"] else {}


def _walk_tree(
    node: CommandNode, words: Iterable[str]
) -> tuple[CommandNode | None, CommandNode | None, int]:
    """Return (the command, the option whose value comes next, the next argument's index).

    The command is None if the words that follow belong to another program.
    """
    option: CommandNode | None = None
    place = 0
    for word in words:
        if word == "=":
            continue
        if option is not None:
            option = None
        elif word.startswith("-"):
            name, equals, _ = word.partition("=")
            about = node["options"].get(name)
            option = about if about is not None and about["takes"] and not equals else None
        elif node["commands"]:
            if word not in node["commands"]:
                return None, None, 0
            node = node["commands"][word]
        elif node.get("hands_on"):
            return None, None, 0
        else:
            place += 1
    return node, option, place


def _filter_by_prefix(words: Iterable[Suggestion], begun: str) -> list[Suggestion]:
    return [(value, says) for value, says in words if value.startswith(begun)]


def _list_values(of: CommandNode, words: tuple[str, ...]) -> Iterable[Suggestion]:
    if "choices" in of:
        return [(choice, "") for choice in of["choices"]]
    what = of.get("what")
    if what == "chains":
        return _list_chains(words)
    if what == "partitions":
        return _list_partitions()
    if what == "policies":
        return [*((name, "") for name in POLICY_NAMES), *_list_models()]
    return _list_models() if what == "models" else []


def _list_models() -> list[Suggestion]:
    """List trained models as commands take them: models/NAME and models/NAME/VERSION."""
    under = get_models_dir()
    found = [card.parent.relative_to(under).as_posix() for card in under.glob("*/*/card.json")]
    names = {name.partition("/")[0] for name in found}
    return [(f"models/{name}", "") for name in sorted({*found, *names}) if _is_harmless(name)]


def _list_chains(words: tuple[str, ...]) -> list[Suggestion]:
    """List the chains that the command can change, newest first."""
    wanted = next((_STATES[word] for word in words if word in _STATES), None)
    return [
        (row["chain_id"], f"{row['state']}, {int(row['links_started'])} links begun")
        for row in fetch_rows("/chains", limit=500)
        if _is_harmless(row["chain_id"])
        and row["state"] in (_KNOWN_STATES if wanted is None else wanted)
    ]


def _list_partitions() -> list[Suggestion]:
    """List the partitions of the jobs that the service shows."""
    names = {row["partition"] for row in fetch_rows("/jobs", limit=200)}
    return [(name, "") for name in sorted(names) if _is_harmless(name)]


def fetch_rows(path: str, *, limit: int) -> list[dict[str, Any]]:
    """Return the rows of the service's answer; none if it refuses or does not answer in time."""
    found: list[dict[str, Any]] = []

    def collect_rows() -> None:
        with suppress(Exception):  # the prompt has no place for an error
            found.extend(_request_rows(f"{path}?limit={limit}"))

    # In a thread: a look-up of the host's name cannot be cut short otherwise.
    thread = Thread(target=collect_rows, daemon=True)
    thread.start()
    thread.join(get_patience_s())
    return [] if thread.is_alive() else found


def get_patience_s() -> float:
    """Return how long the service may take, in seconds. A malformed variable is ignored."""
    try:
        return min(60.0, max(0.01, float(os.environ.get(PATIENCE) or _PATIENCE_S)))
    except ValueError:
        return _PATIENCE_S


def _request_rows(path: str) -> list[dict[str, Any]]:
    asked = (transport.resolve_service_url(None), "GET", transport.PREFIX + path)
    answer = transport.send_request(*asked, identified=False, timeout_s=get_patience_s())
    if answer.status == HTTPStatus.UNAUTHORIZED:
        answer = transport.send_request(*asked, identified=True, timeout_s=get_patience_s())
    return list(json.loads(answer.body)["items"]) if answer.is_success else []


def _is_harmless(value: str) -> bool:
    return _HARMLESS.fullmatch(value) is not None
