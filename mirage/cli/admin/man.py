"""`mirage man`: writes the manual pages, from the same texts as `--help`."""

from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from importlib.metadata import version
from inspect import unwrap
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.main import get_group

from mirage.cli import app as command_line
from mirage.cli.command_help import EXITS, MANUAL, HelpEntry
from mirage.errors import InputError

app = typer.Typer()

_SECTION = 1
_PACKAGE = "mirage-provisioner"
_ENVIRONMENT = {
    "MIRAGE_URL": "The service's address, an http, https or unix:// URL.",
    "MIRAGE_TOKEN_FILE": "A file with a bearer token, mode 0600. Default: MUNGE or Slurm's own "
    "socket identifies you.",
    "MIRAGE_CONFIG": "The configuration file, in place of /etc/mirage/mirage.toml.",
    "MIRAGE_DATABASE_URL": "The database's URL, in place of database.url of the configuration.",
    "MIRAGE_COMPLETION_S": "How long completion waits for the service, in seconds. Default: 0.2.",
    "NO_COLOR": "If set to any value, Mirage prints without colours.",
}
_KINDS = {int: "INTEGER", float: "FLOAT", Path: "PATH", str: "TEXT"}


@app.command("man")
def write_man_pages(
    folder: Annotated[
        Path, typer.Argument(help="Write the pages into the folder man1 below this folder.")
    ],
) -> None:
    """Write the manual pages: mirage(1), and one for each command.

    If the folder is on MANPATH, `man mirage-chain-show` then shows the page of that command.
    """
    into = folder / f"man{_SECTION}"
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, text in render_pages().items():
            (into / f"{name}.{_SECTION}").write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{into} cannot be written: {error.strerror}") from error
    typer.echo(f"{len(render_pages())} pages in {into}")


def render_pages() -> dict[str, str]:
    """Return the manual pages in roff, by name such as `mirage-chain-show`."""
    pages = {"mirage": _render_overview()}
    for name, (module, _) in command_line.COMMANDS.items():
        command = get_group(import_module(module).app).commands[name]
        pages |= dict(_render_command_pages(command, (name,)))
    return pages


def _render_command_pages(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    inner = getattr(command, "commands", {})
    yield "-".join(("mirage", *words)), _render_page(command, words)
    for name, subcommand in inner.items():
        yield from _render_command_pages(subcommand, (*words, name))


def _render_overview() -> str:
    description = " ".join((command_line.run_mirage.__doc__ or "").split())
    lines = [
        *_render_header("mirage", "runs computations past Slurm's time limit"),
        ".SH SYNOPSIS",
        ".B mirage",
        r"\fICOMMAND\fR [\fIOPTIONS\fR]",
        ".SH DESCRIPTION",
        _escape_roff(description),
        ".SH COMMANDS",
    ]
    for name, (_, line) in command_line.COMMANDS.items():
        lines += [".TP", rf"\fBmirage-{_escape_roff(name)}\fR(1)", _escape_roff(line)]
    lines += [".SH ENVIRONMENT"]
    for name, line in _ENVIRONMENT.items():
        lines += [".TP", rf"\fB{name}\fR", _escape_roff(line)]
    lines += [
        ".SH COMPLETION",
        _escape_roff("`mirage --install-completion` installs completion in bash, zsh or fish."),
    ]
    return _join_page([*lines, *_render_exit_codes(tuple(code for code in EXITS if code < 128))])  # noqa: PLR2004


def _render_page(command: Any, words: tuple[str, ...]) -> str:
    description = command.help or ""
    first, _, rest = description.partition("\n\n")
    name = " ".join(("mirage", *words))
    lines = [
        *_render_header("-".join(("mirage", *words)), " ".join(first.split()).rstrip(".")),
        ".SH SYNOPSIS",
        rf".B {_escape_roff(name)}",
        _escape_roff(" ".join(_format_synopsis(command))),
        ".SH DESCRIPTION",
        _escape_roff(" ".join(first.split())),
    ]
    for paragraph in filter(None, rest.split("\n\n")):
        lines += [".PP", _escape_roff(" ".join(paragraph.split()))]
    inner = getattr(command, "commands", {})
    if inner:
        lines += [".SH COMMANDS"]
    for subcommand in inner:
        lines += [".TP", rf"\fB{_escape_roff('-'.join(('mirage', *words, subcommand)))}\fR(1)"]
        lines += [_escape_roff(" ".join((inner[subcommand].help or "").split()))]
    lines += _render_parameters(command)
    entry = MANUAL.get(" ".join(words))
    return _join_page(lines if entry is None else [*lines, *_render_entry(entry)])


def _format_synopsis(command: Any) -> Iterator[str]:
    if any(param.param_type_name == "option" for param in command.params):
        yield "[OPTIONS]"
    for param in command.params:
        if param.param_type_name == "argument":
            name = param.metavar or str(param.name).upper()
            yield name if param.required or name.startswith("[") else f"[{name}]"
    if hasattr(command, "commands"):
        yield "COMMAND"


def _render_parameters(command: Any) -> list[str]:
    lines: list[str] = []
    types = _get_parameter_types(command.callback)
    for heading, kind in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        params = [p for p in command.params if p.param_type_name == kind and not p.hidden]
        lines += [f".SH {heading}"] if params else []
        for param in params:
            of_type = types.get(param.name)
            lines += [".TP", rf"\fB{_escape_roff(_format_parameter_name(param, of_type))}\fR"]
            lines += [_escape_roff(_describe_parameter(param, of_type))]
    return lines


def _format_parameter_name(param: Any, of_type: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or str(param.name).upper())
    names = ", ".join((*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} {param.metavar or _format_kind(of_type)}"


def _describe_parameter(param: Any, of_type: Any) -> str:
    description = " ".join((param.help or "").split())
    choices = _list_choices(of_type)
    if choices is not None:
        description = f"{description} One of {', '.join(choices)}.".strip()
    default = param.default
    has_plain_default = isinstance(default, str | int | float) and not isinstance(default, bool)
    if has_plain_default and default != "" and "Default" not in description:
        description = f"{description} Default: {getattr(default, 'value', default)}."
    return description or "See the description."


def _get_parameter_types(callback: Callable[..., Any] | None) -> dict[str, Any]:
    """Return each parameter's type by name, without its annotations for typer.

    The types are read from the function: typer's own records of them differ between its versions.
    """
    return {} if callback is None else get_type_hints(unwrap(callback))


def _list_choices(declared: Any) -> list[str] | None:
    """Return the words that the parameter accepts, or None if it accepts any word."""
    for inner in (declared, *get_args(declared)):
        if isinstance(inner, type) and issubclass(inner, Enum):
            return [str(member.value) for member in inner]
        if get_origin(inner) is Literal:
            return [str(word) for word in get_args(inner)]
    return None


def _format_kind(declared: Any) -> str:
    """Return the placeholder for a value of this type in usage lines."""
    if _list_choices(declared) is not None:
        return "WORD"
    kinds = (_KINDS.get(inner) for inner in (declared, *get_args(declared)))
    return next((name for name in kinds if name is not None), "VALUE")


def _render_entry(entry: HelpEntry) -> list[str]:
    lines = [] if not entry.units else [".SH UNITS", _escape_roff(entry.units)]
    lines += [*_render_exit_codes(entry.exits), ".SH EXAMPLES"]
    for what, command in entry.examples:
        lines += [
            ".PP",
            _escape_roff(f"{what[0].upper()}{what[1:]}:" if what else "As it is called:"),
        ]
        lines += [".PP", ".nf", ".RS", _escape_roff(command), ".RE", ".fi"]
    return lines


def _render_exit_codes(codes: tuple[int, ...]) -> list[str]:
    lines = [".SH EXIT STATUS"]
    for code in codes:
        lines += [".TP", rf"\fB{code}\fR", _escape_roff(EXITS[code])]
    return lines


def _render_header(name: str, line: str) -> list[str]:
    title = f'.TH {_escape_roff(name.upper())} {_SECTION} "" "Mirage {version(_PACKAGE)}" "Mirage"'
    return [title, ".SH NAME", rf"{_escape_roff(name)} \- {_escape_roff(line)}"]


def _join_page(lines: list[str]) -> str:
    see = [".SH SEE ALSO", r"\fBmirage\fR(1), \fBsbatch\fR(1), \fBsqueue\fR(1)"]
    return "\n".join([*lines, *see]) + "\n"


_ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga"}


def _escape_roff(text: str) -> str:
    """Escape a text, so that roff takes no character of it as a request or an escape."""
    plain = "".join(_ESCAPES.get(character, character) for character in text)
    return rf"\&{plain}" if plain.startswith(".") else plain
