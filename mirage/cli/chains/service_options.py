"""Options of the commands that ask the service."""

from typing import Annotated

import typer

from mirage.shipped_files import load_client_module

_grammar = load_client_module("command.grammar")

Url = Annotated[str | None, typer.Option(help=_grammar.URL.help)]
ServiceJson = Annotated[bool, typer.Option("--json", help=_grammar.JSON.help)]
