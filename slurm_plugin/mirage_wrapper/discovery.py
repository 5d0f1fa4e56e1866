"""Ask the sbatch that is there which options it has, and which of them take a value.

`--autocomplete=--` (23.02 and later) lists every option with what it takes, but those of plug-ins;
`--help` and `--usage` list what a person is meant to see. Each binary is asked once: the answer is
kept in the user's own cache. Loaded only where the table in options.py leaves a doubt.
"""

import os
import stat
import time

import mirage_places
from mirage_wrapper.options import LATER_KINDS, MAYBE, MIRAGE, NOTHING, TABLE, VALUE, Known

ASK_S = 2.0  # all questions together
TRY_AGAIN_S = 3600  # after an sbatch that did not answer: each call would wait for it
HEAD = "mirage options 1 "
LARGEST = 1 << 20


def find_options(real, environ):
    """The options of the sbatch at `real`; the table where it does not say."""
    real = os.path.abspath(real)
    try:
        path = _get_cache_path(real, environ)
        told = _read_cache(path, real)
    except (OSError, KeyError):  # no place for it, or one where others may write; no such account
        path = told = None
    if told is None:
        try:
            told = _ask_sbatch(real, environ)
        except OSError:  # no room for its answer, or it is another's and goes on
            told = {}
        if path is not None:
            _write_cache(path, real, told)
    return _merge_options(told) if told else TABLE


def _merge_options(told):
    letters = dict(TABLE.letters)
    names = {}
    for name, kind in told.items():
        if name.startswith("-"):
            letters.setdefault(name[1:], kind)
        else:
            names[name] = kind
    later = dict(LATER_KINDS)
    later.update(TABLE.names)
    return Known(names, letters, later)


# What is kept: a line for the binary, and one for each option.


def _get_cache_path(real, environ):
    import zlib

    found = os.stat(real)
    crc = zlib.crc32(os.fsencode(real)) & 0xFFFFFFFF
    name = "sbatch-%08x-%d-%d" % (crc, found.st_size, found.st_mtime_ns)
    return os.path.join(mirage_places.get_cache_folder(environ), name)


def _read_cache(path, real):
    """The options that are kept of `real`, none of one that did not answer; None: to be asked."""
    try:
        # A pipe would keep us waiting, a link leads to another's file.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as kept:
        found = os.fstat(fd)
        own = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not (stat.S_ISREG(found.st_mode) and own):
            return None
        mirage_places.refuse_others(os.path.dirname(path), {0, os.geteuid()})
        lines = os.fsdecode(kept.read(LARGEST)).split("\n")
    told = dict(_parse_pair(line) for line in lines[1:-1])
    if lines[0] != HEAD + real or lines[-1] or None in told:
        return None
    return told if told or time.time() - found.st_mtime < TRY_AGAIN_S else None


def _parse_pair(line):
    name, _, kind = line.rpartition(" ")
    return (name, kind) if name.strip() and kind in (NOTHING, MAYBE, VALUE) else (None, None)


def _write_cache(path, real, told):
    """Write the cache. If it cannot be kept, sbatch is asked again the next time."""
    lines = [HEAD + real] + ["%s %s" % pair for pair in sorted(told.items())]
    folder, own = os.path.dirname(path), "%s.%d" % (path, os.getpid())
    try:
        mirage_places.make_private_folder(folder)
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as kept:
            kept.write(os.fsencode("\n".join(lines) + "\n"))
        os.rename(own, path)
    except OSError:
        return


# What is asked.


def _ask_sbatch(real, environ):
    """Each option as a long name or as `-X`, with what it takes; empty where nothing was said."""
    until = time.monotonic() + ASK_S
    exact = _parse_autocomplete(_read_output(real, "--autocomplete=--", environ, until))
    shown = {}
    for question in ("--usage", "--help"):  # what help says is the later word
        shown.update(_parse_help(_read_output(real, question, environ, until)))
    if not (exact or shown):
        return {}
    told = {} if exact else dict(TABLE.names)
    for name, kind in shown.items():
        if not (exact and TABLE.get_kind(name)):  # help also shows what is gone, such as --power
            told[name] = _resolve_shown(name, kind)
    told.update((name, _resolve_listed(name, kind)) for name, kind in exact.items())
    return {name: kind for name, kind in told.items() if not name.startswith(MIRAGE)}


def _resolve_listed(name, kind):
    """Resolve the kind that an sbatch says of an option against the table.

    If the table has it the other way round, the table wins: no release would make scripts that work
    mean something else.
    """
    before = TABLE.get_kind(name)
    return before if {before, kind} == {NOTHING, VALUE} else kind


def _resolve_shown(name, kind):
    """Resolve the kind that help shows of an option.

    The table knows better, for help leaves much out.
    """
    if name.startswith("-"):
        return kind
    before = TABLE.get_kind(name)
    if before is None or (before, kind) == (NOTHING, MAYBE):
        return VALUE if kind == VALUE else MAYBE
    return before


def _parse_autocomplete(text):
    """`--name` takes nothing, `--name=` a value; one that stands there in both ways may take one."""
    import re

    found = {}
    for name, equals in re.findall(r"^--([A-Za-z0-9][\w-]*)(=?) *$", text, re.MULTILINE):
        kind = VALUE if equals else NOTHING
        found[name] = MAYBE if found.get(name, kind) != kind else kind
    return found


def _parse_help(text):
    """`-N, --nodes=N` at the start of a line, and `[--nodes=N]` or `[--input file]` in usage."""
    import re

    found = {}
    line = r"^ {1,8}(?:-(\w), ?)? *--([A-Za-z0-9][\w-]*)(\[=|=| <)?"
    words = r"\[()--([A-Za-z0-9][\w-]*)(\[=|=| [^\s\]])?"
    for pattern in (words, line):
        for letter, name, mark in re.findall(pattern, text, re.MULTILINE):
            kind = MAYBE if mark == "[=" else VALUE if mark else NOTHING
            found[name] = kind
            if letter:
                found["-" + letter] = kind
    return found


def _limit_resources():
    import resource

    for what, most in ((resource.RLIMIT_FSIZE, LARGEST), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard < 0 else min(most, hard), hard))


def _read_output(real, question, environ, until):
    """Return the output of `real question` if that command ends well, else "".

    "" also if it does not end in time, or if its output has no end.
    """
    import subprocess
    import tempfile

    with tempfile.TemporaryFile() as out:  # a pipe may be kept open by what it has started
        try:
            asked = subprocess.Popen(  # noqa: S603 - an argument vector
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
            code = asked.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(asked.pid, 9)
            asked.wait()
            return ""
        out.seek(0)
        return out.read(LARGEST).decode("ascii", "replace") if code == 0 else ""
