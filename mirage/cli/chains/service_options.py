"""Options of the commands that ask the service."""

from typing import Annotated

import typer

Url = Annotated[
    str | None,
    typer.Option(
        help="The service's address. Default: $MIRAGE_URL, then /etc/mirage/client.conf, then the "
        "socket on this host."
    ),
]
ServiceJson = Annotated[bool, typer.Option("--json", help="Print the service's JSON on stdout.")]
