"""Submit a command as a chain: call the wrapped sbatch, whose output and exit code tell the outcome.

The command's words are the arguments of a script that runs them, so none of them is read by a shell.
The wrapper keeps a copy of the script, and each later link runs that copy with the same words.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from mirage_slurm.api.chain import Chain, ChainError
from mirage_slurm.wrapper import invocation, process, resubmission
from mirage_slurm.wrapper.carrier import PLUGIN
from mirage_slurm.wrapper.options import MIRAGE, MIRAGE_NAMES

Word = Union[str, "os.PathLike[str]"]
Value = Union[None, bool, int, float, Word, List[str], Tuple[str, ...]]

RUNNER = '#!/bin/sh\nexec "$@"\n'
DIRECTIVES = (b"#SBATCH", b"#SLURM", b"#MIRAGE", b"#PBS")
NAME = re.compile(r"[a-z][a-z0-9_]+\Z")
NAMED_CHAIN = re.compile(r"^mirage: chain ([0-9a-z]{20})[ :]", re.MULTILINE)
NOT_TAKEN = {
    "autocomplete": "it submits nothing",
    "help": "it submits nothing",
    "parsable": "submit() returns a Chain",
    "quiet": "it hides which chain was made",
    "test_only": "it submits nothing",
    "usage": "it submits nothing",
    "version": "it submits nothing",
    "wrap": "the command is the first argument",
}


def submit(
    command: Sequence[Word],
    *,
    chain: Optional[int] = None,
    total: Optional[str] = None,
    **options: Value,
) -> Chain:
    """Submit a command as a chain of Slurm jobs, and return the chain.

    `command`: the program and its arguments. If the program is a script with #SBATCH or #MIRAGE
    lines, these lines count, as with sbatch. `chain`: the number of links. `total`: the run time of
    all links after which the chain ends, as Slurm writes times. One of the two is needed.

    `options` are sbatch's long options and Mirage's settings (`sbatch --mirage-help`), with `_` for
    `-`: cpus_per_task=4, max_overlap="30:00". A trailing `_` does not count, as in continue_. True gives
    an option without a value; None and False leave an option out; a list is joined by commas. The
    job's name is the program's, unless job_name is set.

    What sbatch prints for people is printed on standard error. Raises TypeError or ValueError for
    arguments of another form, and ChainError if no chain was made.
    """
    if chain is None and total is None:
        raise ValueError('give the number of links (chain=8) or a total run time (total="5-0")')
    words = _list_command(command)
    option_words = _build_options(dict(options, chain=chain, total=total))
    _refuse_here(os.environ)
    script = _find_own_script(words[0], options.get("chdir"))
    if script is not None:
        return _read_outcome(*_run_wrapper(option_words + [script] + words[1:]))
    if "job_name" not in options and not os.environ.get("SBATCH_JOB_NAME"):
        option_words.append("--job-name=" + (os.path.basename(words[0]) or words[0]))
    folder = tempfile.mkdtemp(prefix="mirage-")
    try:
        script = os.path.join(folder, "command")
        with open(script, "w") as file:
            file.write(RUNNER)
        return _read_outcome(*_run_wrapper(option_words + [script] + words))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _list_command(command: Sequence[Word]) -> List[str]:
    if isinstance(command, (str, bytes, os.PathLike)):
        raise TypeError('give the command as a list of words, such as ["python3", "train.py"]')
    words = [os.fspath(word) for word in command]
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise TypeError("a word of a command is a text without NUL, not %r" % (word,))
    if not words or not words[0]:
        raise ValueError('the command is empty: give its words, such as ["python3", "train.py"]')
    return words


def _build_options(options: Mapping[str, Value]) -> List[str]:
    """Build sbatch's words for these options."""
    words = []
    for keyword, value in options.items():
        name = keyword.rstrip("_")
        if NAME.match(name) is None:
            raise ValueError("%r is no option of sbatch: write the long name" % (keyword,))
        if value is None or value is False:
            continue
        if name in NOT_TAKEN:
            raise ValueError("submit() does not take %s: %s" % (name, NOT_TAKEN[name]))
        option = name.replace("_", "-")
        option = MIRAGE + option if MIRAGE + option in MIRAGE_NAMES else option
        words.append("--%s%s" % (option, "" if value is True else "=" + _format_value(value)))
    return words


def _format_value(value: Value) -> str:
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
    elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        text = ",".join(value)
    else:
        raise TypeError(
            "the value of an option is a text, a number or a list of texts, not %r" % (value,)
        )
    if not isinstance(text, str) or "\0" in text:
        raise TypeError("the value of an option is a text without NUL, not %r" % (text,))
    return text


def _refuse_here(environ: Mapping[str, str]) -> None:
    """Raise ChainError where the wrapper would submit a plain job instead of a chain."""
    if environ.get("MIRAGE_DISABLE", "0") not in ("", "0"):
        raise ChainError(
            "MIRAGE_DISABLE is set, so sbatch makes no chain: unset it; nothing was submitted"
        )
    if resubmission.find_link(environ) is not None or environ.get(resubmission.BELOW):
        raise ChainError(
            "no chain begins inside a link, nor in a job that a link has submitted: submit it from"
            " elsewhere; nothing was submitted"
        )


def _find_own_script(word: str, directory: Value) -> Optional[str]:
    """Return the path of a script that has directives of its own; None for any other program."""
    folder = os.fspath(directory) if isinstance(directory, (str, os.PathLike)) else None
    path = invocation.find_script(word, folder, os.environ)
    if path is None:
        return None
    with open(path, "rb") as script:
        head = invocation.cut_leading_block(script.read(invocation.HEAD_BYTES))
    has_directives = any(line.startswith(DIRECTIVES) for line in head.split(b"\n"))
    return os.path.abspath(path) if has_directives else None


def _run_wrapper(words: List[str]) -> Tuple[int, bytes, str]:
    """Run the wrapped sbatch by this Python, which the wrapper's first line may not name."""
    python = sys.executable or "/usr/bin/python3"
    process = subprocess.Popen(  # noqa: S603 - an argument vector
        [python, "-IS", os.path.join(PLUGIN, "sbatch")] + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = process.communicate()
    return process.returncode, output, errors.decode("utf-8", "replace")


def _read_outcome(code: int, output: bytes, errors: str) -> Chain:
    if code != 0:
        raise ChainError(errors.strip() or "sbatch ended with %d and said nothing" % (code,))
    match = NAMED_CHAIN.search(errors)
    if match is None:
        job = process.parse_job_id(output)
        raise ChainError(
            "sbatch took the job%s and named no chain, so it may run once only: %s"
            % (" %d" % (job,) if job else "", errors.strip() or "it gave no reason")
        )
    sys.stderr.write(errors)
    return Chain(match.group(1))
