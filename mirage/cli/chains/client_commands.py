"""Help, manual pages and completion of `mirage chain` and `mirage plugin`.

The package mirage_slurm runs these commands and has their grammar. This module makes commands of
typer from the grammar; they never run (mirage.__main__).
"""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any

import typer

from mirage.cli.connection.suggestions import suggest_chains, suggest_policies
from mirage.errors import InputError
from mirage.shipped_files import load_client_module

grammar = load_client_module("command.grammar")
app = typer.Typer()

_TYPES: dict[str, type] = {"text": str, "integer": int, "number": float, "flag": bool}
_SUGGESTIONS: dict[str, Callable[..., Any]] = {"policies": suggest_policies}
_PASSED_ON: dict[str, Any] = {
    "context_settings": {
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    }
}
"""What stands behind Mirage's own options of `chain submit` is sbatch's."""


def _build_group(name: str, help_text: str) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help=help_text)
    group.callback()(lambda: None)  # a group stays a group, even with one command
    for command in grammar.COMMANDS:
        group_name, verb = command.words
        if group_name == name:
            settings = _PASSED_ON if verb == "submit" else {}
            group.command(verb, help=command.text, **settings)(_build_callback(command))
    return group


def _build_callback(command: Any) -> Callable[..., None]:
    def run_client(**_: Any) -> None:
        # Typer takes such a value as it is, and the client's parser takes it for an option.
        words = " ".join(command.words)
        raise InputError(f"a value that begins with - is given so: mirage {words} --OPTION=VALUE")

    parameters = list(_list_parameters(command))
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    vars(run_client).update(__signature__=inspect.Signature(parameters))
    run_client.__annotations__ = annotations
    return run_client


def _list_parameters(command: Any) -> Iterator[inspect.Parameter]:
    if command.chain:
        is_named = command.chain == "named"
        argument = typer.Argument(
            help=grammar.CHAIN if is_named else grammar.OWN_CHAIN, autocompletion=suggest_chains
        )
        yield _build_parameter(
            "chain_id", str, argument, inspect.Parameter.empty if is_named else ""
        )
    for option in command.options:
        name = option.name.replace("-", "_")
        declared = typer.Option(
            f"--{option.name}",
            help=option.help,
            min=option.least,
            max=option.most,
            autocompletion=_SUGGESTIONS.get(option.completes),
        )
        kind = _choose_type(option)
        if option.kind == "flag":
            yield _build_parameter(name, bool, declared, default=False)
        elif option.default is None:
            yield _build_parameter(name, kind | None, declared, default=None)
        else:
            yield _build_parameter(name, kind, declared, default=option.default)


def _choose_type(option: Any) -> Any:
    make_enum: Any = Enum
    if option.choices:
        return make_enum(option.name, {word: word for word in option.choices})
    return _TYPES[option.kind]


def _build_parameter(name: str, kind: Any, declared: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, declared],
    )


for _name, _help in grammar.GROUPS.items():
    app.add_typer(_build_group(_name, _help), name=_name)
