"""The commands of mirage-slurm as data: their words, options, help, examples and exit codes.

The parser reads them, and mirage-provisioner makes its help, its manual pages and its completion from
them (mirage/cli/chains/client_commands.py).
"""

EXITS = {
    0: "done",
    1: "it failed, or was refused: the message says why",
    2: "an option, a file or the configuration is wrong",
    3: "Slurm did not answer, or refused",
    4: "the database cannot be used, or has the schema of another version",
    5: "the service does not answer; chains continue in Slurm without it",
    130: "ended by Ctrl-C",
    143: "ended by SIGTERM",
}
"""The exit codes of every command of Mirage. Scripts may rely on them."""

MAX_LINKS = 1000
SHELLS = ("bash", "zsh", "ksh", "fish", "csh", "tcsh", "sh")
STATES = ("active", "paused", "finished", "cancelled", "failed")


class Option(object):
    """An option. `text`: its help. `kind`: text, integer, number or flag. `completes`: what a Tab suggests."""

    __slots__ = ("choices", "completes", "default", "help", "kind", "least", "most", "name")

    def __init__(
        self, name, kind, text, default=None, least=None, most=None, choices=(), completes=""
    ):
        self.name = name
        self.kind = kind
        self.help = text
        self.default = default
        self.least = least
        self.most = most
        self.choices = choices
        self.completes = completes


class Command(object):
    """A command. `words`: such as ("chain", "show"). `chain`: whether it takes a chain: "", "own"
    (default: the user's own chain) or "named". `text`: paragraphs. `examples`: (purpose, command)."""

    __slots__ = ("chain", "examples", "exits", "options", "text", "units", "words")

    def __init__(self, words, text, examples, exits, options=(), chain="", units=""):
        self.words = words
        self.text = text
        self.examples = examples
        self.exits = exits
        self.options = options
        self.chain = chain
        self.units = units


GROUPS = {
    "chain": "Submit, show, pause, resume or cancel chains.",
    "plugin": "Print the line for your shell's profile that finds the wrapped sbatch.",
}

CHAIN = "The chain: its id in `mirage chain list`, the id's first letters, or its running job's id."
OWN_CHAIN = CHAIN + " Default: your own chain, if you have one."

_SERVICE = (0, 1, 2, 5)
_LOCAL = (0, 1, 2)
_TIMES = (
    "Times are in this host's time zone. In --json times are RFC 3339 in UTC, and durations are "
    "seconds (_s) or hours (_h)."
)
URL = Option(
    "url",
    "text",
    "The service's address. Default: $MIRAGE_URL, then /etc/mirage/client.conf, then the socket on this host.",
)
JSON = Option(
    "json", "flag", "Print JSON on stdout, with the same keys whether a service answers or not."
)

COMMANDS = (
    Command(
        ("chain", "submit"),
        "Submit a chain: give these options first, then sbatch's options and the script.\n\n"
        "The command does the same as `sbatch --mirage-chain=LINKS ...` of the wrapped sbatch. The other "
        "options of the wrapped sbatch (`sbatch --mirage-help`) work here too, such as "
        "--mirage-style=wait. They stand before the script.",
        (
            ("a chain of eight jobs", "mirage chain submit --links 8 -p gpu -t 48:00:00 train.sh"),
            (
                "an hour of overlap costs as much as an hour of interruption",
                "mirage chain submit --links 8 --overlap-price 1 train.sh",
            ),
        ),
        _LOCAL,
        (
            Option("links", "integer", "How many jobs the chain has.", least=1, most=MAX_LINKS),
            Option(
                "policy",
                "text",
                "The policy that decides. Default: the service's policy.",
                completes="policies",
            ),
            Option(
                "overlap-price",
                "number",
                "What an hour of overlap costs, in hours of interruption.",
                least=0,
            ),
        ),
        units="--overlap-price is hours of interruption per hour of overlap. Other exit codes come from sbatch.",
    ),
    Command(
        ("chain", "list"),
        "List chains, newest first.",
        (
            ("alice's active chains", "mirage chain list --user alice --state active"),
            ("for a script", "mirage chain list --limit 500 --json"),
        ),
        _SERVICE,
        (
            Option("user", "text", "List this user's chains only."),
            Option("me", "flag", "List your own chains only."),
            Option("state", "text", "List chains in this state only.", choices=STATES),
            Option("limit", "integer", "List at most so many chains.", default=100, least=1),
            URL,
            JSON,
        ),
        units=_TIMES,
    ),
    Command(
        ("chain", "show"),
        "Show a chain: a timeline of its links, then a table of links and one of hand-overs.\n\n"
        "The timeline is drawn to scale. It marks interruptions, overlaps and the forecast of the next "
        "link's start. A mark is at least one character wide, so that short ones are seen too. Times are "
        "in this host's time zone.",
        (
            ("the timeline and the figures", "mirage chain show k3v9x2m7q1zt"),
            ("draw the last three links", "mirage chain show k3v9x2m7q1zt --links 3"),
            ("for a script", "mirage chain show k3v9x2m7q1zt --json"),
        ),
        _SERVICE,
        (
            Option(
                "links", "integer", "Draw at most so many links, the newest.", default=24, least=1
            ),
            URL,
            JSON,
        ),
        chain="own",
        units=_TIMES,
    ),
    Command(
        ("chain", "explain"),
        "Explain why Mirage moved the chain's next links in the queue, or did not, newest first.",
        (("the last five decisions", "mirage chain explain k3v9x2m7q1zt --limit 5"),),
        _SERVICE,
        (
            Option(
                "limit",
                "integer",
                "Show at most so many decisions, the newest.",
                default=20,
                least=1,
            ),
            URL,
            JSON,
        ),
        chain="own",
        units=_TIMES,
    ),
    Command(
        ("chain", "pause"),
        "Pause a chain: its running link goes on, and no further link starts until you resume it.",
        (("", "mirage chain pause k3v9x2m7q1zt"),),
        _SERVICE,
        (URL, JSON),
        chain="named",
    ),
    Command(
        ("chain", "resume"),
        "Resume a chain that you, an admin or Mirage paused.\n\n"
        "A chain pauses itself after two failed links in a row. `mirage-link resume CHAIN` resumes such "
        "a chain.",
        (("", "mirage chain resume k3v9x2m7q1zt"),),
        _SERVICE,
        (URL, JSON),
        chain="named",
    ),
    Command(
        ("chain", "cancel"),
        "End a chain: cancel its pending and its running link.",
        (("", "mirage chain cancel k3v9x2m7q1zt"),),
        _SERVICE,
        (URL, JSON),
        chain="named",
    ),
    Command(
        ("plugin", "path"),
        "Print a line for your shell's profile, with which `sbatch --mirage-chain=8` submits a chain.\n\n"
        "Compute nodes must see the folder in that line. In most clusters they see your home directory.",
        (
            ("print the line to add to ~/.bashrc", "mirage plugin path"),
            ("the line for another shell", "mirage plugin path --shell fish"),
        ),
        _LOCAL,
        (
            Option(
                "shell",
                "text",
                "The shell to print the line for. Default: your login shell.",
                choices=SHELLS,
            ),
        ),
    ),
)


def find_command(words):
    """Return the command whose words these begin with; None if there is none."""
    for command in COMMANDS:
        if tuple(words[: len(command.words)]) == command.words:
            return command
    return None
