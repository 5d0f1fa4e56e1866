"""`mirage man`: the manual pages, made from the same words as `--help`."""

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_group

from mirage.cli import app as command_line
from mirage.cli.command_help import EXITS, MANUAL, Entry
from mirage.cli.shell import introspection
from mirage.errors import InputError

app = typer.Typer()

_SECTION = 1
_PACKAGE = "mirage-provisioner"
_ENVIRONMENT = {
    "MIRAGE_URL": "The service, for `mirage chain` and completion: an http or unix:// address.",
    "MIRAGE_TOKEN_FILE": "Holds a bearer token; mode 0600. Without it munge vouches for you.",
    "MIRAGE_CONFIG": "The configuration file, in place of /etc/mirage/mirage.toml.",
    "MIRAGE_DATABASE_URL": "The database, in place of the configuration's.",
    "MIRAGE_COMPLETION_S": "Seconds that a Tab waits for the service; 0.2 unless set.",
    "NO_COLOR": "Set to anything: no colours.",
}


@app.command()
def man(
    folder: Annotated[Path, typer.Argument(help="Pages go into man1 in it, which is made.")],
) -> None:
    """Write the manual pages: mirage(1), and one for each command.

    Where the folder is on MANPATH, `man mirage-chain-show` then shows the page.
    """
    into = folder / f"man{_SECTION}"
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, text in pages().items():
            (into / f"{name}.{_SECTION}").write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{into} cannot be written: {error.strerror}") from error
    typer.echo(f"{len(pages())} pages in {into}")


def pages() -> dict[str, str]:
    """By name, `mirage-chain-show`: the page, in roff."""
    found = {"mirage": _overview()}
    for name, (module, _) in command_line.COMMANDS.items():
        real = get_group(import_module(module).app).commands[name]
        found |= dict(_of(real, (name,)))
    return found


def _of(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    inner = getattr(command, "commands", {})
    yield "-".join(("mirage", *words)), _page(command, words)
    for name, one in inner.items():
        yield from _of(one, (*words, name))


def _overview() -> str:
    said = " ".join((command_line.mirage.__doc__ or "").split())
    lines = [
        *_head("mirage", "keeps long jobs alive on Slurm"),
        ".SH SYNOPSIS",
        ".B mirage",
        r"\fICOMMAND\fR [\fIOPTIONS\fR]",
        ".SH DESCRIPTION",
        _text(said),
        ".SH COMMANDS",
    ]
    for name, (_, line) in command_line.COMMANDS.items():
        lines += [".TP", rf"\fBmirage-{_text(name)}\fR(1)", _text(line)]
    lines += [".SH ENVIRONMENT"]
    for name, line in _ENVIRONMENT.items():
        lines += [".TP", rf"\fB{name}\fR", _text(line)]
    lines += [".SH COMPLETION", _text("`mirage --install-completion` in bash, zsh or fish.")]
    return _ended([*lines, *_exits(tuple(code for code in EXITS if code < 128))])  # noqa: PLR2004


def _page(command: Any, words: tuple[str, ...]) -> str:
    said = command.help or ""
    first, _, rest = said.partition("\n\n")
    name = " ".join(("mirage", *words))
    lines = [
        *_head("-".join(("mirage", *words)), " ".join(first.split()).rstrip(".")),
        ".SH SYNOPSIS",
        rf".B {_text(name)}",
        _text(" ".join(_synopsis(command))),
        ".SH DESCRIPTION",
        _text(" ".join(first.split())),
    ]
    for paragraph in filter(None, rest.split("\n\n")):
        lines += [".PP", _text(" ".join(paragraph.split()))]
    inner = getattr(command, "commands", {})
    if inner:
        lines += [".SH COMMANDS"]
    for one in inner:
        lines += [".TP", rf"\fB{_text('-'.join(('mirage', *words, one)))}\fR(1)"]
        lines += [_text(" ".join((inner[one].help or "").split()))]
    lines += _parameters(command)
    entry = MANUAL.get(" ".join(words))
    return _ended(lines if entry is None else [*lines, *_entry(entry)])


def _synopsis(command: Any) -> Iterator[str]:
    if any(param.param_type_name == "option" for param in command.params):
        yield "[OPTIONS]"
    for param in command.params:
        if param.param_type_name == "argument":
            shown = param.metavar or str(param.name).upper()
            yield shown if param.required or shown.startswith("[") else f"[{shown}]"
    if hasattr(command, "commands"):
        yield "COMMAND"


def _parameters(command: Any) -> list[str]:
    lines: list[str] = []
    types = introspection.types(command.callback)
    for heading, kind in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        params = [p for p in command.params if p.param_type_name == kind and not p.hidden]
        lines += [f".SH {heading}"] if params else []
        for param in params:
            of_type = types.get(param.name)
            lines += [".TP", rf"\fB{_text(_named(param, of_type))}\fR"]
            lines += [_text(_meaning(param, of_type))]
    return lines


def _named(param: Any, of_type: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or str(param.name).upper())
    names = ", ".join((*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} {param.metavar or introspection.kind(of_type)}"


def _meaning(param: Any, of_type: Any) -> str:
    said = " ".join((param.help or "").split())
    choices = introspection.choices(of_type)
    if choices is not None:
        said = f"{said} One of {', '.join(choices)}.".strip()
    default = param.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    if plain and default != "" and "Default" not in said:
        said = f"{said} Default: {getattr(default, 'value', default)}."
    return said or "See the description."


def _entry(entry: Entry) -> list[str]:
    lines = [] if not entry.units else [".SH UNITS", _text(entry.units)]
    lines += [*_exits(entry.exits), ".SH EXAMPLES"]
    for what, command in entry.examples:
        lines += [".PP", _text(f"{what[0].upper()}{what[1:]}:" if what else "As it is called:")]
        lines += [".PP", ".nf", ".RS", _text(command), ".RE", ".fi"]
    return lines


def _exits(codes: tuple[int, ...]) -> list[str]:
    lines = [".SH EXIT STATUS"]
    for code in codes:
        lines += [".TP", rf"\fB{code}\fR", _text(EXITS[code])]
    return lines


def _head(name: str, line: str) -> list[str]:
    title = f'.TH {_text(name.upper())} {_SECTION} "" "Mirage {version(_PACKAGE)}" "Mirage"'
    return [title, ".SH NAME", rf"{_text(name)} \- {_text(line)}"]


def _ended(lines: list[str]) -> str:
    see = [".SH SEE ALSO", r"\fBmirage\fR(1), \fBsbatch\fR(1), \fBsqueue\fR(1)"]
    return "\n".join([*lines, *see]) + "\n"


_ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga"}


def _text(text: str) -> str:
    """Words of ours as roff takes them: nothing of them is a request or an escape."""
    plain = "".join(_ESCAPES.get(character, character) for character in text)
    return rf"\&{plain}" if plain.startswith(".") else plain
