"""The command tree of `mirage`."""

import typer

from mirage.cli import chain, demo, ops, serve, trace

app = typer.Typer(
    name="mirage",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Keeps long jobs alive on Slurm: each follow-on job becomes eligible at the moment that "
    "lets it start just as its predecessor ends. Try `mirage demo --once`.",
)
app.add_typer(demo.app)
app.add_typer(chain.app, name="chain")
app.add_typer(serve.app)
app.add_typer(trace.app)
app.add_typer(ops.app)
