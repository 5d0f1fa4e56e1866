"""Write the carrier (the script that a chain submits) and the directory that a chain's links share.

The carrier is text, because sbatch takes nothing else: the user's directives, the chain's settings
as shell variables, the pieces in the folder carrier, a marker line, and then the user's script
byte for byte. The comments of the pieces travel with it: a carrier of 100 kB is far below the 4 MiB
that slurmctld accepts by default.
"""

import os
import pwd
import re

from mirage_slurm.client import places, service
from mirage_slurm.wrapper import invocation
from mirage_slurm.wrapper.chain import build_later_words, parse_interpreter

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PLUGIN = os.path.dirname(PACKAGE)  # links run programs there (mirage_plan.py)
SHELL = "/bin/sh"
# If there is bash, it runs the carrier: dash drops variables whose names it does not know, and with
# them exported functions (`module` of Lmod and Environment Modules). --posix keeps bash from reading
# BASH_ENV once more.
BETTER_SHELL = "/bin/bash"
FOLDERS = tuple(
    "beat began carrier deadline ends jobs made plans ran requeued returns started waited waits".split()
)
# The pieces of every carrier, in this order: main calls the functions of those before it.
PIECES = tuple("files guard progress overlap turn standby plan loops script main".split())
MOST_NEIGHBOURS = 1000
ASKS_SLURM = (b"scontrol", b"squeue", b"sacct")
OCTAL = re.compile(r"[0-7]{1,4}\Z")
# Lines that make each job of a link costly: burst buffers, and mail by qsub's option (its value is not
# read).
COSTLY_LINE = re.compile(rb"(?m)^#(?:BB|DW|BB_LUA|PBS .*-m)\b")
SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SHELLS_OWN = frozenset("BASHOPTS BASH_VERSINFO EUID OPTIND PPID SHELLOPTS UID".split())  # read-only
# SLURM_ variables that later links get: the configuration, and the umask that sbatch gives the job.
# All others describe a job.
KEPT_SLURM = frozenset(["SLURM_CONF", "SLURM_UMASK"])
# Variables that later links do not get: requests for a chain, and those of another chain's link.
NOT_KEPT = frozenset(
    "MIRAGE_CHAIN MIRAGE_TOTAL MIRAGE_CHAIN_ID MIRAGE_DEADLINE MIRAGE_DIR MIRAGE_FLOOR"
    " MIRAGE_RESUME".split()
)


def make_directory(chain):
    """Make the chain's directory with all files that its links need."""
    base = _make_state_directory(chain.call.environ)
    chain.directory = os.path.join(base, chain.id)
    os.mkdir(chain.directory, 0o700)
    try:
        for folder in FOLDERS:
            os.mkdir(os.path.join(chain.directory, folder), 0o700)
        kept_environ = filter_environment(chain.call.environ)
        write_file(
            os.path.join(chain.directory, "env"),
            _join_words(map("%s=%s".__mod__, kept_environ.items())),
        )
        write_file(os.path.join(chain.directory, "env.sh"), _format_exports(kept_environ))
        write_file(os.path.join(chain.directory, "argv"), _join_words(chain.call.reading.words))
        write_file(os.path.join(chain.directory, "clusters"), os.fsencode(chain.find_clusters()))
        write_file(os.path.join(chain.directory, "style"), chain.settings.style.encode() + b"\n")
        write_file(chain.get_carrier_path(), render_carrier(chain))
        _link_neighbours(chain)
    except Exception:
        remove_directory(chain)
        raise


def save_registration(chain, body, why):
    """Write down a registration that failed: a running link sends it again (planner/plan.py).

    `body`: None if no link is to send it. `why`: the service's refusal, for `mirage-link status`;
    empty if no service answered.
    """
    try:
        if why:
            write_file(os.path.join(chain.directory, "not-registered"), os.fsencode(why) + b"\n")
        if body is not None:
            write_file(os.path.join(chain.directory, "unregistered"), body + b"\n")
    except OSError:
        pass  # the chain runs all the same


def remove_directory(chain):
    """Remove the chain's directory, after sbatch has refused the job."""
    for parent, folders, files in os.walk(chain.directory, topdown=False):
        for name in files:
            os.unlink(os.path.join(parent, name))
        for name in folders:
            path = os.path.join(parent, name)
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    os.rmdir(chain.directory)


def _link_neighbours(chain):
    """Make links beside the carrier to the files beside the script. Slurm's Command= names the
    carrier, and some scripts find their own directory by it.

    Files that the script names come first, MOST_NEIGHBOURS in all. A script that calls none of
    ASKS_SLURM needs no links."""
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


def write_file(path, data):
    """Write a new file that its owner alone can read. An existing file or link is an error."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(data)


def find_state_directory(environ):
    """Return the directory for chains, which may be absent."""
    base = environ.get("MIRAGE_STATE_DIR")
    if not base:
        home = environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
        base = os.path.join(home, ".local", "state", "mirage")
    return os.path.abspath(base)


def _make_state_directory(environ):
    """Return the directory for chains, made if it is absent. Raises PermissionError if anybody else
    may change it."""
    base = find_state_directory(environ)
    if not os.path.isdir(base):
        os.makedirs(base, 0o700)
    places.refuse_others(base, {0, os.geteuid()})
    return base


def filter_environment(environ):
    """Return the submitter's environment for the later links."""
    return {name: value for name, value in sorted(environ.items()) if _is_kept(name)}


def _format_exports(environ):
    """Format the environment as shell commands, for nodes without python3. Names that a shell cannot
    set are left out."""
    lines = []
    for name, value in environ.items():
        if SHELL_NAME.match(name) and name not in SHELLS_OWN:
            lines.append(b"export %s=%s\n" % (name.encode(), quote_word(value)))
    return b"".join(lines)


def _is_kept(name):
    if name.startswith("SLURM_"):
        return name in KEPT_SLURM
    if name in NOT_KEPT or name.startswith(("MIRAGE_LINK", "MIRAGE_PREV_")):
        return False
    return name != "" and not name.startswith("-")  # env would take such a name for an option


def render_carrier(chain):
    """Return the carrier in bytes.

    mirage_offset is the position of the user's script in it, counted from 1 as `tail -c +N` does.
    """
    text = _render_head(chain) + _read_core() + invocation.END_OF_CORE
    offset = b"mirage_offset=%010d\n"
    text = text.replace(offset % (0,), offset % (len(text) + 1,), 1)
    if b"\r\n" in text:
        raise ValueError("an argument or directory holds a DOS line break")
    return text + chain.script.text


def _read_core():
    parts = []
    for piece in PIECES:
        with open(os.path.join(PACKAGE, "carrier", piece + ".sh"), "rb") as part:
            parts.append(part.read())
    return b"\n".join(parts)


def _choose_shell():
    return BETTER_SHELL + " --posix" if os.path.exists(BETTER_SHELL) else SHELL


def _render_head(chain):
    block = invocation.cut_leading_block(chain.script.text)
    if not block.endswith(b"\n"):
        block += b"\n"
    settings = [
        ("chain", chain.id),
        ("dir", chain.directory),
        ("cwd", os.getcwd()),
        ("comment", chain.comment),
        ("sbatch", chain.call.real),
        ("plugin", PLUGIN),
        ("url", _find_url(chain.call.environ)),
        ("cluster", _find_cluster(chain.call.environ)),
        ("append", chain.choose_open_mode()),
        ("umask", "%04o" % (read_umask(chain.call.environ),)),
        ("plans", service.read_configured("plans", chain.call.environ)),
        ("max_lead", service.read_configured("max_lead", chain.call.environ)),
        ("returns", str(_choose_returns(chain))),
        ("max_returns", service.read_configured("max_returns", chain.call.environ)),
    ] + _list_settings(chain.settings)
    lines = [b"#!%s\n" % (_choose_shell().encode(),), invocation.CARRIER_MARK + b"1\n", block]
    lines += [b"mirage_%s=%s\n" % (name.encode(), quote_word(value)) for name, value in settings]
    lines += [b"mirage_offset=%010d\n" % (0,), b"mirage_size=%d\n" % (len(chain.script.text),)]
    return b"".join(lines) + _render_functions(chain)


def read_umask(environ):
    """Return the umask that sbatch gives the job: SLURM_UMASK, else that of this process."""
    umask = environ.get("SLURM_UMASK", "")
    if OCTAL.match(umask):
        return int(umask, 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _find_url(environ):
    """Return the service's URL for the links on any host; empty: by the configuration of each host."""
    url = service.url(environ)
    return "" if url.startswith(service.UNIX) else url


def _find_cluster(environ):
    """Return the name of the service's cluster; empty: the cluster of the job."""
    try:
        return service.cluster(environ)
    except service.Unreachable:
        return ""


def _list_settings(settings):
    """Return (name, text) of the chain's settings for the carrier; "" for an unset one."""
    values = [
        ("links", settings.links),
        ("total", settings.total_s),
        ("until", _make_absolute(settings.until_file)),
        ("max_overlap", settings.max_overlap_s),
        ("presubmit", settings.presubmit),
        ("style", settings.style),
        ("mode", settings.mode),
        ("continue", settings.continue_after),
        ("min_runtime", settings.min_runtime_s),
        ("checkpoint", _make_absolute(settings.checkpoint)),
        ("brief", _choose_brief(settings)),
        ("price", settings.overlap_price),
        ("lead", settings.lead_s),
        ("service", settings.service),
    ]
    return [(name, "" if value is None else str(value)) for name, value in values]


def bound_returns(chain):
    """Return how often a link may give its nodes back, by client.conf of this host. A bound that is
    no number allows none, as in planner/give_back.py."""
    from mirage_slurm.planner import lead_rules

    bound = service.read_configured("max_returns", chain.call.environ)
    return lead_rules.bound_returns(str(_choose_returns(chain)), [bound]) or 0


def _choose_returns(chain):
    """Return how often a link may give its nodes back.

    Return 0 if each job of a link costs more than its nodes: mail at its end, which the user would
    take for the script's end; burst buffers that are filled; nodes that are rebooted.
    """
    readings = (chain.directives, chain.call.reading)
    options = [option for reading in readings for option in reading.options]
    kinds = ",".join(option.value or "" for option in options if option.name == "mail-type")
    has_mail = not {"END", "ALL"}.isdisjoint(kinds.upper().replace(" ", "").split(","))
    has_costly_option = any(option.name in ("bb", "bbf", "reboot") for option in options)
    if has_mail or has_costly_option or COSTLY_LINE.search(chain.script.text):
        return 0
    return chain.settings.returns


def _choose_brief(settings):
    """Return "ends" if a link that finds nothing to do ends the chain; None if it does not, because
    the user has stated --mirage-continue."""
    return None if "continue" in settings.stated_names else "ends"


def _make_absolute(path):
    """Return a path of the user's, made absolute from the directory of the submission."""
    return None if path is None else os.path.join(os.getcwd(), path)


def _render_functions(chain):
    """Render the two shell functions with the user's own words: sbatch's call for a later link, and
    the interpreter's call for the script."""
    before, after = build_later_words(chain)
    words = [quote_word(word) for word in before]
    words += [b'"$@"'] + [quote_word(word) for word in [*after, chain.get_carrier_path()]]
    words += [b'"mirage:$mirage_chain:$mirage_next"']
    words += [quote_word(word) for word in chain.get_arguments()]
    run = b" ".join(quote_word(os.fsdecode(word)) for word in parse_interpreter(chain.script.text))
    return (
        b'mirage_run_sbatch() { mirage_run_in_environment "$mirage_sbatch" '
        + b" ".join(words)
        + b"; }\n"
        b"mirage_run_script() { mirage_exec " + run + b' "$@"; }\n'
    )


def quote_word(word):
    """Quote a word for the shell, in bytes, whatever it holds."""
    return b"'" + os.fsencode(word).replace(b"'", b"'\\''") + b"'"


def _join_words(words):
    return b"".join(os.fsencode(word) + b"\0" for word in words)
