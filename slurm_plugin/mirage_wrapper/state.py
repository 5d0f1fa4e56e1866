"""The state that a link's script hands to its next step by environment variables.

A script from before Mirage counts by `sbatch --export=ALL,PART=2 "$0"`, or by a variable that it has
exported anew. Inside a chain the next link stands already, with the environment of the first
submission: the changes go into values/<link>, which the link's carrier reads before its script.
"""

import os

from mirage_wrapper import carrier

READS_VALUES = b"\nmirage_take_values() "  # in the carriers that do
NOISE = frozenset("IFS OLDPWD PWD SHLVL _".split())  # of every shell
NAMED = 5


def find_changes(call, link):
    """Find what the job of this call would have beyond this link's script: values by name.

    None is the value of a variable that is gone. Only names that a shell can set are told.
    """
    start, now = _filter(_read_start(link)), _filter(call.environ)
    items = _list_exported(call)
    plain = {item for item in items if "=" not in item}
    if "ALL" in map(str.upper, plain):
        wanted = start.keys() | now.keys()
    else:  # the environment of a login, and the names alone
        wanted = plain & now.keys()
    changes = {name: now.get(name) for name in wanted if now.get(name) != start.get(name)}
    given = _filter(dict(item.split("=", 1) for item in items if "=" in item))
    changes.update((name, value) for name, value in given.items() if value != start.get(name))
    for name in [name for name in given if given[name] == start.get(name)]:
        changes.pop(name, None)
    return changes


def hand_on(link, changes):
    """Write the changes down for the next link: None, or why the next link cannot have them.

    A second call with other changes is another step of the script than the next link. Raises OSError
    where the directory takes no file.
    """
    later = str(link.index + 1)
    folder = os.path.join(link.directory, "values")
    path = os.path.join(folder, later)
    text = _render(link, changes)
    if _has_begun(link, later):
        return "link %s of this chain has begun already" % (later,)
    if link.read_first_line("values", later) == _render_head(link):
        is_same = link.read_file("values", later) == text
        return None if is_same else "link %s of this chain has other values" % (later,)
    os.makedirs(folder, 0o700, exist_ok=True)
    carrier.write_file("%s.new.%d" % (path, os.getpid()), text)
    os.rename("%s.new.%d" % (path, os.getpid()), path)
    if _has_begun(link, later):
        os.unlink(path)
        return "link %s of this chain has begun meanwhile" % (later,)
    return None


def format_names(changes):
    names = sorted(changes)
    more = " and %d more" % (len(names) - NAMED,) if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _has_begun(link, later):
    return os.path.exists(os.path.join(link.directory, "started", later))


def _render_head(link):
    """A run of the link: after a requeue its script takes its steps anew."""
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
        and not name.startswith(("MIRAGE_", "mirage_"))  # the latter are the carrier's own
    }


def _list_exported(call):
    """The items of --export, an option before the environment before a directive."""
    told = call.reading.get_value("export") or call.environ.get("SBATCH_EXPORT")
    items = _split_items(told or call.said.get_value("export") or "ALL")
    path = call.reading.get_value("export-file") or call.said.get_value("export-file")
    if path:
        try:
            with open(path, "rb") as pairs:
                items += [os.fsdecode(pair) for pair in pairs.read().split(b"\0") if b"=" in pair]
        except OSError:
            pass  # sbatch would refuse it
    return items


def _split_items(told):
    """Split at commas, as sbatch does: not within quotes, which stay."""
    items, quote = [""], None
    for letter in told:
        if letter == "," and quote is None:
            items.append("")
            continue
        if letter in "\"'" and quote in (None, letter):
            quote = letter if quote is None else None
        items[-1] += letter
    return [item for item in items if item]


def _read_start(link):
    """The environment that this link's script was started with: its carrier has written it down.

    In a directory that takes no file it is that of the eldest process that has the link's number.
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
