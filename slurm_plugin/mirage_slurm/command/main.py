"""The program `mirage`. It answers `mirage chain` and `mirage plugin` itself, and hands every other
command to mirage-provisioner, if that is installed."""

import os
import sys

from mirage_slurm.command import grammar, parser, version

OLDEST = (3, 11)  # Python, for mirage-provisioner
_PASSED_ON = ("done", "handover")
_GET = (
    "is a command of the package mirage-provisioner, which this Python does not have: run "
    "`%s -m pip install mirage-provisioner` (Python 3.11 or newer), or ask on the host of your site's service"
)
_HELP = """\
Usage: mirage COMMAND [OPTIONS]

Keep a computation running on Slurm past the time limit, as a chain of jobs.

Submit a chain of eight jobs: `sbatch --mirage-chain=8 job.sh`, then look at it with `mirage chain list --me`.

Commands:
  chain      %(chain)s
  plugin     %(plugin)s
  handover   Inside a job of a chain: hand over to the next job, or take over.
  done       Inside a job of a chain: say that the chain's work is finished.

`mirage COMMAND --help` explains a command. The service, forecasts and the dashboard are the package
mirage-provisioner, which adds its commands here."""


def main():
    """Run the command of sys.argv, and exit."""
    if not _is_completing():
        code = answer(sys.argv[1:])
        if code is not None:
            sys.exit(code)
    if has_provisioner():
        from importlib import import_module

        import_module("mirage.__main__").main()
    sys.exit(_answer_alone(sys.argv[1:]))


def answer(words):
    """Run the command that these words are, if it is one of this package, and return its exit code.

    None: another package's command, or one whose help is wanted or whose words are wrong: then
    mirage-provisioner says so, if it is installed.
    """
    if not words or words[0] not in grammar.GROUPS:
        return None
    try:
        call = parser.parse_words(words)
    except parser.NotParsed:
        return None
    return run_call(call)


def run_call(call):
    """Run a command. Return its exit code; errors become one sentence."""
    from mirage_slurm.client.printable import escape_unprintable
    from mirage_slurm.client.rest import CommandError
    from mirage_slurm.command import chains, plugin_path

    try:
        if call.command.words == ("plugin", "path"):
            return plugin_path.print_line(call.values["shell"], os.environ)
        return chains.run_command(call.command.words[1], call.values)
    except CommandError as error:  # it may quote a user or Slurm
        sys.stdout.flush()
        sys.stderr.write("mirage: %s\n" % (escape_unprintable(str(error)),))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has enough; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def has_provisioner():
    """Return whether this Python has mirage-provisioner, and no other package of its import name."""
    from importlib.util import find_spec

    spec = find_spec("mirage") if sys.version_info >= OLDEST else None
    places = spec.submodule_search_locations if spec is not None else None
    return any(os.path.exists(os.path.join(place, "cli", "app.py")) for place in places or ())


def _is_completing():
    return bool(os.environ.get("_MIRAGE_COMPLETE"))


def _answer_alone(words):
    """Answer what this package has no command for, without mirage-provisioner; return the exit code."""
    if _is_completing():
        return 0
    if words[:1] in ([], ["--help"]):
        (sys.stdout if words else sys.stderr).write(_HELP % grammar.GROUPS + "\n")
        return 0 if words else 2
    if words[0] == "--version":
        sys.stdout.write("mirage %s\n" % (version.VERSION,))
        return 0
    if words[0] in grammar.GROUPS:
        try:
            return run_call(parser.parse_words(words))
        except parser.NotParsed as why:
            return parser.print_not_parsed(why)
    if words[0] in _PASSED_ON:
        return _run_link_program(words)
    sys.stderr.write("mirage: `mirage %s` %s\n" % (words[0], _GET % (sys.executable,)))
    return 1


def _run_link_program(words):
    from mirage_slurm.command.plugin_path import get_plugin_folder

    program = os.path.join(get_plugin_folder(), "mirage-link")
    os.execv(program, [program] + words)  # noqa: S606 - our own program, no shell


if __name__ == "__main__":
    main()
