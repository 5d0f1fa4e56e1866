"""Read sbatch's words far enough to find the script and the few options that a chain depends on.

This is not sbatch's parser: what it does not know it reports as not understood, and the real
sbatch speaks for itself. The table is that of 22.05, asked of the binary. What it does not know is
asked of the sbatch that is there (discovery.py).
"""

NOTHING, MAYBE, VALUE = "-", "?", "="
"""What an option takes: no value, a value by `=` alone, a value by `=` or as the next word."""

FLAGS = (
    "contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot"
    " spread-job test-only usage use-min-nodes verbose version wait"
)
OPTIONAL = "exclusive get-user-env nice no-kill propagate requeue"
REQUIRED = (
    "account acctg-freq array batch bb bbf begin chdir cluster cluster-constraint clusters comment"
    " constraint container context core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task"
    " deadline delay-boot dependency distribution error exclude export export-file extra-node-info gid"
    " gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint"
    " input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind"
    " mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes ntasks ntasks-per-core"
    " ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition"
    " power prefer priority profile qos reservation signal sockets-per-node switches tasks-per-node"
    " thread-spec threads-per-core time time-min tmp uid wait-all-nodes wckey wrap"
)
LATER = {
    NOTHING: "consolidate-segments external spread-segments stepmgr",
    MAYBE: "oom-kill-step resv-ports",
    VALUE: (
        "autocomplete container-id container-type extra mem-update resources segment tres-bind"
        " tres-per-task"
    ),
}
"""Names of newer releases, known where they stand in full: an older sbatch abbreviates without them."""

ALIASES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
MIRAGE = "mirage-"
MIRAGE_FLAGS = frozenset(["mirage-never-overlap"])
MIRAGE_VALUES = frozenset(
    "mirage-chain mirage-checkpoint mirage-continue mirage-lead mirage-max-overlap mirage-min-runtime"
    " mirage-mode mirage-overlap-price mirage-policy mirage-presubmit mirage-returns mirage-service"
    " mirage-style mirage-total mirage-until-file".split()
)
MIRAGE_NAMES = MIRAGE_FLAGS | MIRAGE_VALUES
SHORT_REQUIRED = "abcdeimnopqtwxABCDFGJLMNS"
SHORT_OPTIONAL = "k"
SHORT_FLAGS = "hsvHOQVW"
SHORT_NAMES = {
    "a": "array",
    "b": "begin",
    "d": "dependency",
    "h": "help",
    "H": "hold",
    "M": "clusters",
    "Q": "quiet",
    "t": "time",
    "V": "version",
    "W": "wait",
}


class Known(object):
    """The options of one sbatch: `names` and `letters`, each with what it takes.

    `later`: names that are known where they stand in full, and shorten no other's abbreviation.
    """

    __slots__ = ("later", "letters", "names")

    def __init__(self, names, letters, later):
        self.names = names
        self.letters = letters
        self.later = later

    def get_kind(self, name):
        return self.names.get(name) or self.later.get(name)

    def find_full_name(self, given):
        """Resolve an abbreviation as getopt_long does; None for an unknown or ambiguous one."""
        if given in MIRAGE_NAMES or self.get_kind(given):
            return given
        if given.startswith(MIRAGE):
            return None
        found = [name for name in self.names if name.startswith(given)]
        return found[0] if len(found) == 1 else None


def _map_kinds(lists):
    return {name: kind for kind, names in lists.items() for name in names.split()}


LATER_KINDS = _map_kinds(LATER)
TABLE = Known(
    _map_kinds({NOTHING: FLAGS, MAYBE: OPTIONAL, VALUE: REQUIRED}),
    _map_kinds(
        {
            NOTHING: " ".join(SHORT_FLAGS),
            MAYBE: " ".join(SHORT_OPTIONAL),
            VALUE: " ".join(SHORT_REQUIRED),
        }
    ),
    LATER_KINDS,
)


class Option(object):
    """One option as it stood: its full name, its value or None, and the words it took."""

    __slots__ = ("component", "first", "kind", "last", "letter", "name", "value")

    def __init__(self, name, value, first, last, component):
        self.name = name
        self.value = value
        self.first = first
        self.last = last
        self.component = component
        self.kind = self.letter = None

    def format_words(self):
        """A short option written out alone, for one that shared its word with others."""
        word = "-" + self.letter
        if self.value is None:
            return [word]
        return [word + self.value] if self.kind == MAYBE else [word, self.value]


class Reading(object):
    """The options found in `words`. `insert` is where more options for the first component go.

    `sure`: each option stood in full, and was known.
    """

    def __init__(self, words, known=TABLE):
        self.words = words
        self.known = known
        self.sure = True
        self.options = []
        self.script = None
        self.insert = None
        self.components = 1
        self.not_understood = None

    def get_value(self, name, component=0):
        """The value that counts of an option that takes one, None where it was not given."""
        found = None
        for option in self.options:
            if option.name == name and option.component == component:
                found = option.value
        return found

    def has_option(self, name):
        return any(option.name == name for option in self.options)

    def list_words_without(self, names, first=0, until=None):
        """The words from `first` to before `until`, without these options and without Mirage's."""
        until = len(self.words) if until is None else until
        groups = {}
        for option in self.options:
            groups.setdefault(option.first, []).append(option)
        kept = []
        at = first
        while at < until:
            group = groups.get(at, [])
            left = [o for o in group if o.name not in names and not o.name.startswith(MIRAGE)]
            last = max([o.last for o in group] + [at])
            if len(left) == len(group):
                kept.extend(self.words[at : last + 1])
            else:
                for option in left:
                    kept.extend(option.format_words())
            at = last + 1
        return kept

    def list_own_words(self):
        """The words before the script: sbatch's, not the script's."""
        return self.words if self.script is None else self.words[: self.script]

    def list_plain_words(self):
        """The words with Mirage's own options taken out."""
        return self.list_words_without(())


def read_words(words, known=TABLE):
    """Read the words after `sbatch`, of an sbatch that has the options `known`."""
    reading = Reading(words, known)
    at = 0
    while at < len(words) and reading.not_understood is None:
        word = words[at]
        if word == ":":
            if reading.insert is None:
                reading.insert = at
            reading.components += 1
            at += 1
        elif word == "--":
            if reading.insert is None:
                reading.insert = at
            at += 1
            break
        elif word.startswith("--"):
            at = _read_long_option(reading, at)
        elif word.startswith("-") and word != "-":
            at = _read_short_options(reading, at)
        else:
            break
    if reading.insert is None:
        reading.insert = min(at, len(words))
    if at < len(words) and reading.not_understood is None:
        reading.script = at
    return reading


def _add_option(reading, name, value, first, last):
    option = Option(ALIASES.get(name, name), value, first, last, reading.components - 1)
    reading.options.append(option)
    return option


def _read_long_option(reading, at):
    word = reading.words[at]
    given, equals, value = word[2:].partition("=")
    name = reading.known.find_full_name(given)
    if name != given and not given.startswith(MIRAGE):
        reading.sure = False
    if name is None:
        if equals:  # a site's plug-in option or a newer one: one word whatever it means
            _add_option(reading, given, value, at, at)
        else:
            reading.not_understood = word
        return at + 1
    kind = _get_kind(name, reading.known)
    if kind == NOTHING and equals:
        reading.sure = reading.sure and name in MIRAGE_FLAGS
        reading.not_understood = word
    if equals or kind != VALUE:
        _add_option(reading, name, value if equals else None, at, at)
        return at + 1
    if at + 1 >= len(reading.words):
        reading.not_understood = word
        return at + 1
    _add_option(reading, name, reading.words[at + 1], at, at + 1)
    return at + 2


def _get_kind(name, known):
    if name in MIRAGE_NAMES:
        return NOTHING if name in MIRAGE_FLAGS else VALUE
    return known.get_kind(name)


def _read_short_options(reading, at):
    """Read `-N2`, `-N 2`, `-HQ`, `-HN2` and the like."""
    word = reading.words[at]
    for i in range(1, len(word)):
        letter, rest = word[i], word[i + 1 :]
        kind = reading.known.letters.get(letter)
        name = SHORT_NAMES.get(letter, letter)
        last = at
        if kind == NOTHING:
            value = None
        elif kind == MAYBE:
            value = rest or None
        elif kind == VALUE and (rest or at + 1 < len(reading.words)):
            last = at if rest else at + 1
            value = rest or reading.words[at + 1]
        else:
            reading.sure = kind is not None and reading.sure
            reading.not_understood = word
            return at + 1
        option = _add_option(reading, name, value, at, last)
        option.letter, option.kind = letter, kind
        if kind != NOTHING:
            return last + 1
    return at + 1
