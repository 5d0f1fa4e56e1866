"""Finds the output file of a batch job, as far as its submit command shows it."""

import re
import shlex
from itertools import zip_longest

_PLAIN = "slurm-%j.out"
"""sbatch's default if neither its command line nor the script names a file (sbatch(1),
--output)."""

_CODE = re.compile(r"%(\d*)([%jAxuJ])")


def resolve_stdout_path(submit_line: str, *, job_id: int, user: str) -> tuple[str, bool]:
    """The file of its standard output, and whether the command line names it.

    Where it does not, a `#SBATCH --output` of the script may: then the name told is not the file's.
    A name without a directory is in the one that the job was submitted from.
    """
    given = _find_output_option(submit_line)
    pattern = given or _PLAIN
    return _CODE.sub(lambda found: _expand_code(found, job_id, user), pattern), given is not None


def _find_output_option(submit_line: str) -> str | None:
    try:
        words = shlex.split(submit_line)
    except ValueError:
        return None
    found = None
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word in {"-o", "--output"} and following:
            found = following
        elif word.startswith("--output="):
            found = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--") and len(word) > len("-o"):
            found = word.removeprefix("-o")
    return found or None


def _expand_code(found: re.Match[str], job_id: int, user: str) -> str:
    width, code = found.groups()
    match code:
        case "%":
            return "%"
        case "u":
            return user
        case "x":
            return found.group()  # the job's name: a link does not know it
    return str(job_id).zfill(int(width or 0))
