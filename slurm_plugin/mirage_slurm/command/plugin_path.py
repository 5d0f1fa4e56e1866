"""`mirage plugin path`: the line for a shell's profile, with which `sbatch` is the wrapped one."""

import os
import re
import shlex
import sys

from mirage_slurm.client.rest import BadInput, CommandError
from mirage_slurm.command import grammar

_WITH_EXPORT = ("sh", "bash", "zsh", "ksh", "ksh93", "mksh", "dash", "ash")
_SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin")
_EARLY_RETURN = re.compile(
    r"^\s*(?:\*\)\s*return\b|(?:\[|\[\[|case) .*(?:PS1|\$-).*(?:return|in\s*$))"
)
"""In ~/.bashrc: where a shell that is not interactive ends. `case $- in` is Debian's and Ubuntu's."""


def get_plugin_folder():
    """Return the folder of the wrapped sbatch: the package lies in it."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def print_line(shell, environ):
    """Print the line for this shell, and notes on standard error. Raises CommandError."""
    folder = get_plugin_folder()
    if not os.path.exists(os.path.join(folder, "sbatch")):
        raise CommandError(
            "the wrapped sbatch is not in %s: this installation is incomplete, install Mirage again"
            % (folder,)
        )
    shell = shell or os.path.basename(environ.get("SHELL", ""))
    sys.stdout.write(format_path_line(folder, shell, _find_own_commands()) + "\n")
    if shell == "bash":
        note = describe_early_return(os.path.expanduser("~/.bashrc"))
        sys.stderr.write(note and "mirage: %s\n" % (note,))
    return 0


def format_path_line(folder, shell, commands=""):
    """Return the line that puts `folder` first on PATH, in the words of this shell.

    `shell`: a name or a path, such as /bin/tcsh. `commands`: the folder of the program `mirage`, which
    the line puts last; "" if PATH needs none. Raises BadInput for a shell of other words.
    """
    name = os.path.basename(shell)
    if name in ("csh", "tcsh"):  # which have no `export`, and expand `!` even between quotes
        line = 'setenv PATH %s:"$PATH"' % (shlex.quote(folder).replace("!", "\\!"),)
        return line + (":" + shlex.quote(commands).replace("!", "\\!") if commands else "")
    if name == "fish":
        words = [_quote_for_fish(folder), "$PATH"] + (
            [_quote_for_fish(commands)] if commands else []
        )
        return "set -gx PATH " + " ".join(words)
    if name and name not in _WITH_EXPORT:
        raise BadInput(
            "Mirage knows no line for the shell %s: put the folder %s first on PATH in that shell's own "
            "way, or name another shell by --shell (%s)" % (name, folder, ", ".join(grammar.SHELLS))
        )
    line = 'export PATH=%s:"$PATH"' % (shlex.quote(folder),)
    return line + (":" + shlex.quote(commands) if commands else "")


def _quote_for_fish(text):
    return "'%s'" % (text.replace("\\", "\\\\").replace("'", "\\'"),)


def _find_own_commands():
    """Return the folder of the program `mirage` that runs; "" if every PATH has it."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    is_program = os.path.basename(sys.argv[0]) == "mirage" and os.path.isfile(sys.argv[0])
    return folder if is_program and folder not in _SYSTEM else ""


def describe_early_return(path):
    """Say where this ~/.bashrc returns in shells that are not interactive; "" if it does not."""
    try:
        with open(path, errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if _EARLY_RETURN.match(line):
                    return (
                        "line %d of %s ends the file in shells that are not interactive, as in `ssh HOST sbatch ...`: "
                        "for these put the line above it" % (number, path)
                    )
    except OSError:
        pass
    return ""
