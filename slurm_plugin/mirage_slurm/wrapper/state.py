"""The variables by which a link's script passes state to its next step.

A script from before Mirage counts by `sbatch --export=ALL,PART=2 "$0"`, or by a variable that it
exports anew. Inside a chain the next link is queued already, with the environment of the first
submission. So the changes go into values/LINK, and the link's carrier reads them before its script.
"""

import os

from mirage_slurm.wrapper import carrier

READS_VALUES = b"\nmirage_take_values() "  # a carrier that reads values/LINK defines this function
NOISE = frozenset("IFS OLDPWD PWD SHLVL _".split())  # of every shell
NAMED = 5


def find_changes(call, link):
    """Return the variables that the job of this call would have other than this link's script, by name.

    None is the value of a variable that is gone. Only names that a shell can set are returned.
    """
    old, current = _filter(_read_start(link)), _filter(call.environ)
    items = _list_exported(call)
    plain = {item for item in items if "=" not in item}
    if "ALL" in map(str.upper, plain):
        names = old.keys() | current.keys()
    else:  # --export without ALL: only the named variables
        names = plain & current.keys()
    changes = {name: current.get(name) for name in names if current.get(name) != old.get(name)}
    assigned = _filter(dict(item.split("=", 1) for item in items if "=" in item))
    changes.update((name, value) for name, value in assigned.items() if value != old.get(name))
    for name in [name for name in assigned if assigned[name] == old.get(name)]:
        changes.pop(name, None)
    return changes


def write_changes(link, changes):
    """Write the changes down for the next link. Return None, or why the next link cannot have them.

    A second call with other changes is a further step of the script, not the next link. Raises
    OSError if the directory takes no file.
    """
    next_index = str(link.index + 1)
    folder = os.path.join(link.directory, "values")
    path = os.path.join(folder, next_index)
    text = _render(link, changes)
    if _has_begun(link, next_index):
        return "link %s of this chain has begun already" % (next_index,)
    if link.read_first_line("values", next_index) == _render_head(link):
        is_same = link.read_file("values", next_index) == text
        return None if is_same else "link %s of this chain has other values" % (next_index,)
    os.makedirs(folder, 0o700, exist_ok=True)
    carrier.write_file("%s.new.%d" % (path, os.getpid()), text)
    os.rename("%s.new.%d" % (path, os.getpid()), path)
    if _has_begun(link, next_index):
        os.unlink(path)
        return "link %s of this chain has begun meanwhile" % (next_index,)
    return None


def format_names(changes):
    names = sorted(changes)
    more = " and %d more" % (len(names) - NAMED,) if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _has_begun(link, next_index):
    return os.path.exists(os.path.join(link.directory, "started", next_index))


def _render_head(link):
    """Return the first line of values/LINK. It names the run of this link: after a requeue the script
    does its steps anew, so earlier values do not count."""
    return "# of job %s, run %s" % (link.job, os.environ.get("SLURM_RESTART_COUNT") or "0")


def _render(link, changes):
    lines = [_render_head(link).encode() + b"\n"]
    for name, value in sorted(changes.items()):
        if value is None:
            lines.append(b"unset %s\n" % (name.encode(),))
        else:
            lines.append(b"export %s=%s\n" % (name.encode(), carrier.quote_word(value)))
    return b"".join(lines)


def _filter(environ):
    return {
        name: value
        for name, value in carrier.filter_environment(environ).items()
        if carrier.SHELL_NAME.match(name)
        and name not in NOISE
        and name not in carrier.SHELLS_OWN
        and not name.startswith(("MIRAGE_", "mirage_"))  # mirage_ variables are the carrier's own
    }


def _list_exported(call):
    """Return the items of --export: an option overrides the environment, which overrides a directive."""
    export = call.reading.get_value("export") or call.environ.get("SBATCH_EXPORT")
    items = _split_items(export or call.directives.get_value("export") or "ALL")
    path = call.reading.get_value("export-file") or call.directives.get_value("export-file")
    if path:
        try:
            with open(path, "rb") as pairs:
                items += [os.fsdecode(pair) for pair in pairs.read().split(b"\0") if b"=" in pair]
        except OSError:
            pass  # sbatch would refuse it
    return items


def _split_items(text):
    """Split at commas as sbatch does: not within quotes. The quotes stay."""
    items, quote = [""], None
    for letter in text:
        if letter == "," and quote is None:
            items.append("")
            continue
        if letter in "\"'" and quote in (None, letter):
            quote = letter if quote is None else None
        items[-1] += letter
    return [item for item in items if item]


def _read_start(link):
    """Return the environment that this link's script was started with, as its carrier wrote it down.

    If the directory took no file, take that of the eldest ancestor process that has MIRAGE_LINK.
    """
    try:
        return _parse_environ(link.read_file("start.%d" % (link.index,)))
    except OSError:
        pass
    start, pid = dict(os.environ), os.getppid()
    while pid > 1:
        try:
            with open("/proc/%d/environ" % (pid,), "rb") as pairs:
                environ = _parse_environ(pairs.read())
            with open("/proc/%d/stat" % (pid,), "rb") as stat:
                pid = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError):
            return start
        if environ.get("MIRAGE_LINK"):
            start = environ
    return start


def _parse_environ(text):
    entries = [entry.partition(b"=") for entry in text.split(b"\0")]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries if name}
