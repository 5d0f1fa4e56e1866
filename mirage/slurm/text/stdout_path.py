"""Finds the output file of a batch job, as far as its submit command shows it."""

import re
import shlex
from itertools import zip_longest

_DEFAULT_PATTERN = "slurm-%j.out"
"""sbatch's default if neither its command line nor the script names a file (sbatch(1),
--output)."""

_CODE = re.compile(r"%(\d*)([%jAxuJ])")


def resolve_stdout_path(submit_line: str, *, job_id: int, user: str) -> tuple[str, bool]:
    """Return the file of a job's standard output, and whether the command line names it.

    If the command line does not, the script's `#SBATCH --output` may name another file: then the
    returned name is wrong. A relative name is relative to the directory of the submission.
    """
    option = _find_output_option(submit_line)
    pattern = option or _DEFAULT_PATTERN
    return _CODE.sub(lambda match: _expand_code(match, job_id, user), pattern), option is not None


def _find_output_option(submit_line: str) -> str | None:
    try:
        words = shlex.split(submit_line)
    except ValueError:
        return None
    path = None
    for word, next_word in zip_longest(words, words[1:], fillvalue=""):
        if word in {"-o", "--output"} and next_word:
            path = next_word
        elif word.startswith("--output="):
            path = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--") and len(word) > len("-o"):
            path = word.removeprefix("-o")
    return path or None


def _expand_code(match: re.Match[str], job_id: int, user: str) -> str:
    width, code = match.groups()
    match code:
        case "%":
            return "%"
        case "u":
            return user
        case "x":
            return match.group()  # the job's name: a link does not know it
    return str(job_id).zfill(int(width or 0))
