"""Write the carrier (what a chain submits) and the directory that a chain's links share.

The carrier is text, because sbatch takes nothing else: the user's directives, what Mirage has to
know, the core in carrier.sh, a marker, and then the user's script byte for byte.
"""

import os
import pwd
import re

import mirage_places
import mirage_service
from mirage_wrapper import invocation
from mirage_wrapper.chain import interpreter, later_words

PLUGIN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # links know it by this path
SHELL = "/bin/sh"
# Where there is bash it carries: dash drops what it cannot name, and so a user's exported functions
# (`module` of Lmod and Environment Modules). --posix keeps bash from reading BASH_ENV once more.
BETTER_SHELL = "/bin/bash"
FOLDERS = tuple(
    "beat began carrier deadline ends jobs made plans ran requeued started waited waits".split()
)
# What travels in every carrier, in this order: the last one runs what the others define.
PIECES = ("files", "guard", "progress", "overlap", "turn", "standby", "plan", "loops", "script")
MOST_NEIGHBOURS = 1000
ASKS_SLURM = (b"scontrol", b"squeue", b"sacct")
OCTAL = re.compile(r"[0-7]{1,4}\Z")
SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SHELLS_OWN = frozenset("BASHOPTS BASH_VERSINFO EUID OPTIND PPID SHELLOPTS UID".split())  # read-only
# Which Slurm, and the umask that sbatch gives the job; the other SLURM_ names describe a job.
KEPT_SLURM = frozenset(["SLURM_CONF", "SLURM_UMASK"])
# What asks for a chain, and what a link of another chain was told.
NOT_KEPT = frozenset(
    "MIRAGE_CHAIN MIRAGE_TOTAL MIRAGE_CHAIN_ID MIRAGE_DEADLINE MIRAGE_DIR MIRAGE_RESUME".split()
)


def lay_out(chain):
    """Make the chain's directory with all that its links need."""
    base = _state_directory(chain.call.environ)
    chain.directory = os.path.join(base, chain.id)
    os.mkdir(chain.directory, 0o700)
    try:
        for folder in FOLDERS:
            os.mkdir(os.path.join(chain.directory, folder), 0o700)
        saved = kept_environment(chain.call.environ)
        write(os.path.join(chain.directory, "env"), _joined(map("%s=%s".__mod__, saved.items())))
        write(os.path.join(chain.directory, "env.sh"), _exports(saved))
        write(os.path.join(chain.directory, "argv"), _joined(chain.call.reading.words))
        write(os.path.join(chain.directory, "clusters"), os.fsencode(chain.clusters()))
        write(os.path.join(chain.directory, "style"), chain.settings.style.encode() + b"\n")
        write(chain.carrier(), text_of(chain))
        _link_neighbours(chain)
    except Exception:
        take_away(chain)
        raise


def take_away(chain):
    """Remove what was laid out for a job that sbatch then refused."""
    for where, folders, files in os.walk(chain.directory, topdown=False):
        for name in files:
            os.unlink(os.path.join(where, name))
        for name in folders:
            path = os.path.join(where, name)
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    os.rmdir(chain.directory)


def _link_neighbours(chain):
    """Links beside the carrier to what lies beside the script: Slurm says Command= of the carrier,
    and scripts find their own directory by that. Those that the script names come first; a script
    that asks Slurm nothing costs no file."""
    text = chain.script.text
    if chain.call.path is None or not any(word in text for word in ASKS_SLURM):
        return
    home = os.path.dirname(os.path.abspath(chain.call.path))
    names = sorted(os.listdir(home), key=lambda name: os.fsencode(name) not in text)
    for name in names[:MOST_NEIGHBOURS]:
        path = os.path.join(home, name)
        is_around = chain.directory.startswith(path + os.sep)
        if name != chain.script.name and not is_around:
            os.symlink(path, os.path.join(chain.directory, "carrier", name))


def write(path, data):
    """Write a file that its owner alone can read; never through a link that is already there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(data)


def _state_directory(environ):
    """The directory for chains: nobody else may move things in it, nor move it away."""
    base = environ.get("MIRAGE_STATE_DIR")
    if not base:
        home = environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
        base = os.path.join(home, ".local", "state", "mirage")
    base = os.path.abspath(base)
    if not os.path.isdir(base):
        os.makedirs(base, 0o700)
    mirage_places.refuse_others(base, {0, os.geteuid()})
    return base


def kept_environment(environ):
    """The submitter's environment for the later links."""
    return {name: value for name, value in sorted(environ.items()) if _is_kept(name)}


def _exports(environ):
    """The environment for a shell, where a node has no python3: of names that a shell can set."""
    lines = []
    for name, value in environ.items():
        if SHELL_NAME.match(name) and name not in SHELLS_OWN:
            lines.append(b"export %s=%s\n" % (name.encode(), quoted(value)))
    return b"".join(lines)


def _is_kept(name):
    if name.startswith("SLURM_"):
        return name in KEPT_SLURM
    if name in NOT_KEPT or name.startswith(("MIRAGE_LINK", "MIRAGE_PREV_")):
        return False
    return name != "" and not name.startswith("-")  # which env would take for an option


def text_of(chain):
    """The carrier as bytes."""
    text = _top(chain) + _core() + invocation.END_OF_CORE
    offset = b"mirage_offset=%010d\n"
    text = text.replace(offset % (0,), offset % (len(text) + 1,), 1)
    if b"\r\n" in text:
        raise ValueError("an argument or directory holds a DOS line break")
    return text + chain.script.text


def _core():
    parts = []
    for name in ["carrier_%s.sh" % (piece,) for piece in PIECES] + ["carrier.sh"]:
        with open(os.path.join(PLUGIN, name), "rb") as part:
            parts.append(part.read())
    return b"\n".join(parts)


def _shell():
    return BETTER_SHELL + " --posix" if os.path.exists(BETTER_SHELL) else SHELL


def _top(chain):
    block = invocation.leading_block(chain.script.text)
    if not block.endswith(b"\n"):
        block += b"\n"
    settings = [
        ("chain", chain.id),
        ("dir", chain.directory),
        ("cwd", os.getcwd()),
        ("comment", chain.comment),
        ("sbatch", chain.call.real),
        ("plugin", PLUGIN),
        ("url", _url(chain.call.environ)),
        ("cluster", _cluster(chain.call.environ)),
        ("append", chain.open_mode()),
        ("umask", "%04o" % (umask(chain.call.environ),)),
        ("plans", mirage_service.configured("plans", chain.call.environ)),
        ("max_lead", mirage_service.configured("max_lead", chain.call.environ)),
    ] + _asked(chain.settings)
    lines = [b"#!%s\n" % (_shell().encode(),), invocation.CARRIER_MARK + b"1\n", block]
    lines += [b"mirage_%s=%s\n" % (name.encode(), quoted(value)) for name, value in settings]
    lines += [b"mirage_offset=%010d\n" % (0,), b"mirage_size=%d\n" % (len(chain.script.text),)]
    return b"".join(lines) + _functions(chain)


def umask(environ):
    """What sbatch gives the job of this submission: a variable goes before the process's own."""
    told = environ.get("SLURM_UMASK", "")
    if OCTAL.match(told):
        return int(told, 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _url(environ):
    """Where the service is for the links, on whichever host; empty: as that host is told."""
    url = mirage_service.url(environ)
    return "" if url.startswith(mirage_service.UNIX) else url


def _cluster(environ):
    """Of the service at that URL; empty: that of the job."""
    try:
        return mirage_service.cluster(environ)
    except mirage_service.Unreachable:
        return ""


def _asked(settings):
    """The chain's settings as the core reads them; empty is none."""
    asked = [
        ("links", settings.links),
        ("total", settings.total_s),
        ("until", _whole(settings.until_file)),
        ("max_overlap", settings.max_overlap_s),
        ("presubmit", settings.presubmit),
        ("style", settings.style),
        ("mode", settings.mode),
        ("continue", settings.continue_after),
        ("min_runtime", settings.min_runtime_s),
        ("checkpoint", _whole(settings.checkpoint)),
        ("brief", _brief(settings)),
        ("price", settings.overlap_price),
        ("lead", settings.lead_s),
        ("service", settings.service),
    ]
    return [(name, "" if value is None else str(value)) for name, value in asked]


def _brief(settings):
    """What a link that finds nothing to do comes to: the chain's end, but where the user has said
    that it goes on after COMPLETED."""
    return None if "continue" in settings.asked else "ends"


def _whole(path):
    """A path of the user's, seen from the directory of the submission."""
    return None if path is None else os.path.join(os.getcwd(), path)


def _functions(chain):
    """The places where the user's own words stand: sbatch's line, the interpreter's, and the link's
    own for a job that was submitted without words (mirage_enter)."""
    before, after = later_words(chain)
    words = [quoted(word) for word in before]
    words += [b'"$@"'] + [quoted(word) for word in [*after, chain.carrier()]]
    words += [b'"mirage:$mirage_chain:$mirage_next"']
    arguments = [quoted(word) for word in chain.arguments()]
    words += arguments
    link = [quoted(word) for word in [*_shell().split(), chain.carrier()]]
    link += [b'"mirage:$mirage_chain:$mirage_index"'] + arguments
    run = b" ".join(quoted(os.fsdecode(word)) for word in interpreter(chain.script.text))
    return (
        b'mirage_run_sbatch() { mirage_in_env "$mirage_sbatch" ' + b" ".join(words) + b"; }\n"
        b"mirage_run_script() { mirage_exec " + run + b' "$@"; }\n'
        b'mirage_run_link() { "$@" ' + b" ".join(link) + b"; }\n"
    )


def quoted(word):
    """A word as the shell reads it back, whatever it holds."""
    return b"'" + os.fsencode(word).replace(b"'", b"'\\''") + b"'"


def _joined(words):
    return b"".join(os.fsencode(word) + b"\0" for word in words)
