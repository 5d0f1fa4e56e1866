"""Ask the installed sbatch which options it has, and which of them take a value.

`--autocomplete=--` (23.02 and later) lists every option except those of plug-ins, and whether it
takes a value. `--help` and `--usage` list fewer. Each binary is asked once; the answer is kept in
the user's cache. This module is loaded only if the table in options.py leaves a doubt.

An option's kind is NOTHING, MAYBE or VALUE (options.py).
"""

import os
import stat
import time

from mirage_slurm.client import places
from mirage_slurm.wrapper.options import (
    LATER_KINDS,
    MAYBE,
    MIRAGE,
    NOTHING,
    TABLE,
    VALUE,
    OptionTable,
)

ASK_S = 2.0  # all questions together
TRY_AGAIN_S = 3600  # after sbatch did not answer, ask no sooner: each call would wait for it
HEAD = "mirage options 1 "
LARGEST = 1 << 20


def find_options(real, environ):
    """Return the OptionTable of the sbatch at `real`; TABLE if that sbatch does not answer."""
    real = os.path.abspath(real)
    try:
        path = _get_cache_path(real, environ)
        kinds = _read_cache(path, real)
    except (OSError, KeyError):  # no cache, a cache where others may write, or no such account
        path = kinds = None
    if kinds is None:
        try:
            kinds = _ask_sbatch(real, environ)
        except OSError:  # no room for sbatch's answer, or a process that cannot be ended
            kinds = {}
        if path is not None:
            _write_cache(path, real, kinds)
    return _merge_options(kinds) if kinds else TABLE


def _merge_options(kinds):
    letters = dict(TABLE.letters)
    names = {}
    for name, kind in kinds.items():
        if name.startswith("-"):
            letters.setdefault(name[1:], kind)
        else:
            names[name] = kind
    later = dict(LATER_KINDS)
    later.update(TABLE.names)
    return OptionTable(names, letters, later)


# The cache: a line for the binary, and a line for each option.


def _get_cache_path(real, environ):
    import zlib

    status = os.stat(real)
    crc = zlib.crc32(os.fsencode(real)) & 0xFFFFFFFF
    name = "sbatch-%08x-%d-%d" % (crc, status.st_size, status.st_mtime_ns)
    return os.path.join(places.get_cache_folder(environ), name)


def _read_cache(path, real):
    """Return the cached kinds by option of `real`, an empty dict if it did not answer lately; None:
    sbatch is to be asked."""
    try:
        # A pipe would block, and a symbolic link may lead to somebody else's file.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if not (stat.S_ISREG(status.st_mode) and is_own):
            return None
        places.refuse_others(os.path.dirname(path), {0, os.geteuid()})
        lines = os.fsdecode(file.read(LARGEST)).split("\n")
    kinds = dict(_parse_pair(line) for line in lines[1:-1])
    if lines[0] != HEAD + real or lines[-1] or None in kinds:
        return None
    return kinds if kinds or time.time() - status.st_mtime < TRY_AGAIN_S else None


def _parse_pair(line):
    name, _, kind = line.rpartition(" ")
    return (name, kind) if name.strip() and kind in (NOTHING, MAYBE, VALUE) else (None, None)


def _write_cache(path, real, kinds):
    """Write the cache. If it cannot be kept, sbatch is asked again the next time."""
    lines = [HEAD + real] + ["%s %s" % pair for pair in sorted(kinds.items())]
    folder, temporary = os.path.dirname(path), "%s.%d" % (path, os.getpid())
    try:
        places.make_private_folder(folder)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(os.fsencode("\n".join(lines) + "\n"))
        os.rename(temporary, path)
    except OSError:
        return


# The questions.


def _ask_sbatch(real, environ):
    """Return each option, as a long name or as `-X`, with its kind; empty if sbatch says nothing."""
    deadline = time.monotonic() + ASK_S
    listed = _parse_autocomplete(_read_output(real, "--autocomplete=--", environ, deadline))
    helped = {}
    for question in ("--usage", "--help"):  # --help overrides --usage
        helped.update(_parse_help(_read_output(real, question, environ, deadline)))
    if not (listed or helped):
        return {}
    kinds = {} if listed else dict(TABLE.names)
    for name, kind in helped.items():
        # --help also shows options that are gone, such as --power.
        if not (listed and TABLE.get_kind(name)):
            kinds[name] = _resolve_shown(name, kind)
    kinds.update((name, _resolve_listed(name, kind)) for name, kind in listed.items())
    return {name: kind for name, kind in kinds.items() if not name.startswith(MIRAGE)}


def _resolve_listed(name, kind):
    """Resolve the kind that sbatch lists for an option against the table.

    If one says NOTHING and the other VALUE, the table wins: no release of Slurm would change what
    working scripts mean.
    """
    table_kind = TABLE.get_kind(name)
    return table_kind if {table_kind, kind} == {NOTHING, VALUE} else kind


def _resolve_shown(name, kind):
    """Resolve the kind that --help shows for an option. The table wins, since --help leaves much out."""
    if name.startswith("-"):
        return kind
    table_kind = TABLE.get_kind(name)
    if table_kind is None or (table_kind, kind) == (NOTHING, MAYBE):
        return VALUE if kind == VALUE else MAYBE
    return table_kind


def _parse_autocomplete(text):
    """Return kinds by option. `--name` takes nothing, `--name=` a value; an option that is listed in
    both ways may take one."""
    import re

    kinds = {}
    for name, equals in re.findall(r"^--([A-Za-z0-9][\w-]*)(=?) *$", text, re.MULTILINE):
        kind = VALUE if equals else NOTHING
        kinds[name] = MAYBE if kinds.get(name, kind) != kind else kind
    return kinds


def _parse_help(text):
    """Return kinds by option, from lines like `-N, --nodes=N` (--help), and words like `[--nodes=N]`
    or `[--input file]` (--usage)."""
    import re

    kinds = {}
    line = r"^ {1,8}(?:-(\w), ?)? *--([A-Za-z0-9][\w-]*)(\[=|=| <)?"
    words = r"\[()--([A-Za-z0-9][\w-]*)(\[=|=| [^\s\]])?"
    for pattern in (words, line):
        for letter, name, mark in re.findall(pattern, text, re.MULTILINE):
            kind = MAYBE if mark == "[=" else VALUE if mark else NOTHING
            kinds[name] = kind
            if letter:
                kinds["-" + letter] = kind
    return kinds


def _limit_resources():
    import resource

    for what, most in ((resource.RLIMIT_FSIZE, LARGEST), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard < 0 else min(most, hard), hard))


def _read_output(real, question, environ, deadline):
    """Return the output of `real question` if that command ends well, else "".

    "" also if it does not end in time, or if its output has no end.
    """
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as out:  # a child of sbatch might keep a pipe open
        try:
            process = subprocess.Popen(  # noqa: S603 - an argument vector
                [real, question],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                env=environ,
                start_new_session=True,
                preexec_fn=_limit_resources,  # two seconds of `yes` fill a small /tmp
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return ""
        out.seek(0)
        return out.read(LARGEST).decode("ascii", "replace") if code == 0 else ""
