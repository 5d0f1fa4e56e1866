"""`python -m mirage.cli.shell.completion_tree`: writes the command tree into completions.json.

Completion reads that file, since importing the command's own modules takes up to two seconds.
"""

import json
import sys
from importlib import import_module
from typing import Any

from typer.main import get_command, get_group

from mirage.cli import app as command_line
from mirage.cli.shell import introspection
from mirage.cli.shell.completion import TREE

_WHAT = {
    "chain_id": "chains",
    "policy": "policies",
    "policies": "policies",
    "partition": "partitions",
}
"""By the parameter's name: the kind of its values, if they are known at run time alone."""

_HELP_WIDTH = 70


def build_tree() -> dict[str, Any]:
    """Return the command tree: each command with its options, arguments and subcommands."""
    whole = _build_node(get_command(command_line.app))
    for name, (module, _) in command_line.COMMANDS.items():
        real = get_group(import_module(module).app).commands[name]
        whole["commands"][name] = _build_node(real)
    return whole


def _build_node(command: Any) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {}
    arguments = []
    types = introspection.get_parameter_types(command.callback)
    for param in command.params:
        values = _describe_values(param, types.get(param.name))
        if param.param_type_name == "argument":
            arguments.append(values | {"many": param.nargs == -1})
        elif not param.hidden:
            about = {
                "help": _format_help_line(param.help or ""),
                "takes": not param.is_flag,
            } | values
            # `--pin/--no-pin` are two names of one.
            options |= dict.fromkeys((*param.opts, *param.secondary_opts), about)
    options["--help"] = {"help": "Show what the command does, and an example", "takes": False}
    found: dict[str, Any] = {
        "help": _format_help_line(command.help or ""),
        "options": options,
        "arguments": arguments,
    }
    if not command.context_settings.get("allow_interspersed_args", True):
        found["hands_on"] = True  # what follows is another program's
    inner = getattr(command, "commands", {})
    return found | {"commands": {name: _build_node(one) for name, one in inner.items()}}


def _describe_values(param: Any, of_type: Any) -> dict[str, Any]:
    """Describe the values that a parameter takes; an empty dictionary if they are not known."""
    choices = introspection.list_choices(of_type)
    if choices is not None:
        return {"choices": choices}
    if "models/" in (param.metavar or "") and param.name != "out":
        return {"what": "models"}
    return {"what": _WHAT[param.name]} if param.name in _WHAT else {}


def _format_help_line(text: str) -> str:
    """Return the first sentence, without characters that would end a quoted word of a shell.

    Colons and percent signs stay: `completion.respond_to_shell` escapes them for the shell.
    """
    first = " ".join(text.split()).partition(". ")[0].rstrip(".")
    first = first.replace(": ", ", ").replace("; ", ", ")
    plain = "".join(c for c in first if c.isalnum() or c in " ,()/_-=.:%")
    return plain[:_HELP_WIDTH].rstrip()


if __name__ == "__main__":
    TREE.write_text(json.dumps(build_tree(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sys.stderr.write(f"{TREE} is written\n")
