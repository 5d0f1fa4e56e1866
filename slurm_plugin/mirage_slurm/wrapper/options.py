"""Read sbatch's words far enough to find the script and the few options that a chain depends on.

This is not sbatch's parser: it reports a word that it does not know as not understood, and the real
sbatch judges it. The table is that of 22.05, as the binary lists it. About other options the
installed sbatch is asked (discovery.py).
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
"""Names of newer releases. They are known only in full: an older sbatch abbreviates without them."""

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


class OptionTable(object):
    """The options of one sbatch: kinds by long name and by letter.

    `later`: kinds of names that are known only in full, and make no abbreviation ambiguous.
    """

    __slots__ = ("later", "letters", "names")

    def __init__(self, names, letters, later):
        self.names = names
        self.letters = letters
        self.later = later

    def get_kind(self, name):
        return self.names.get(name) or self.later.get(name)

    def find_full_name(self, word):
        """Resolve an abbreviation as getopt_long does; None for an unknown or ambiguous one."""
        if word in MIRAGE_NAMES or self.get_kind(word):
            return word
        if word.startswith(MIRAGE):
            return None
        candidates = [name for name in self.names if name.startswith(word)]
        return candidates[0] if len(candidates) == 1 else None


def _map_kinds(lists):
    return {name: kind for kind, names in lists.items() for name in names.split()}


LATER_KINDS = _map_kinds(LATER)
TABLE = OptionTable(
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
    """One option of a call: its full name, its value or None, and the words it took.

    `first` and `last`: the indices of these words. `component`: of a heterogeneous job, from 0.
    """

    __slots__ = ("component", "first", "kind", "last", "letter", "name", "value")

    def __init__(self, name, value, first, last, component):
        self.name = name
        self.value = value
        self.first = first
        self.last = last
        self.component = component
        self.kind = self.letter = None

    def format_words(self):
        """Write out a short option in words of its own, if it shared its word with others."""
        word = "-" + self.letter
        if self.value is None:
            return [word]
        return [word + self.value] if self.kind == MAYBE else [word, self.value]


class Reading(object):
    """The options found in `words`.

    `sure`: each option is known and written in full. `script`: the index of the script, or None.
    `insert`: where more options for the first component go. `not_understood`: the first word that
    is not understood, or None; no option is found after it.
    """

    def __init__(self, words, table=TABLE):
        self.words = words
        self.table = table
        self.sure = True
        self.options = []
        self.script = None
        self.insert = None
        self.components = 1
        self.not_understood = None

    def get_value(self, name, component=0):
        """Return the value of an option that takes one: the last one counts. None if it is absent."""
        value = None
        for option in self.options:
            if option.name == name and option.component == component:
                value = option.value
        return value

    def has_option(self, name):
        return any(option.name == name for option in self.options)

    def list_words_without(self, names, first=0, end=None):
        """Return the words from `first` to before `end`, without these options and without Mirage's."""
        end = len(self.words) if end is None else end
        groups = {}
        for option in self.options:
            groups.setdefault(option.first, []).append(option)
        words = []
        index = first
        while index < end:
            group = groups.get(index, [])
            remaining = [
                option
                for option in group
                if option.name not in names and not option.name.startswith(MIRAGE)
            ]
            last = max([option.last for option in group] + [index])
            if len(remaining) == len(group):
                words.extend(self.words[index : last + 1])
            else:
                for option in remaining:
                    words.extend(option.format_words())
            index = last + 1
        return words

    def list_own_words(self):
        """Return the words before the script: sbatch's own, not the script's arguments."""
        return self.words if self.script is None else self.words[: self.script]

    def list_plain_words(self):
        """The words with Mirage's own options taken out."""
        return self.list_words_without(())


def read_words(words, table=TABLE):
    """Read the words after `sbatch`, for an sbatch with this OptionTable."""
    reading = Reading(words, table)
    index = 0
    while index < len(words) and reading.not_understood is None:
        word = words[index]
        if word == ":":
            if reading.insert is None:
                reading.insert = index
            reading.components += 1
            index += 1
        elif word == "--":
            if reading.insert is None:
                reading.insert = index
            index += 1
            break
        elif word.startswith("--"):
            index = _read_long_option(reading, index)
        elif word.startswith("-") and word != "-":
            index = _read_short_options(reading, index)
        else:
            break
    if reading.insert is None:
        reading.insert = min(index, len(words))
    if index < len(words) and reading.not_understood is None:
        reading.script = index
    return reading


def _add_option(reading, name, value, first, last):
    option = Option(ALIASES.get(name, name), value, first, last, reading.components - 1)
    reading.options.append(option)
    return option


def _read_long_option(reading, index):
    word = reading.words[index]
    written_name, equals, value = word[2:].partition("=")
    name = reading.table.find_full_name(written_name)
    if name != written_name and not written_name.startswith(MIRAGE):
        reading.sure = False
    if name is None:
        if equals:  # a plug-in's option or a newer one: one word in any case
            _add_option(reading, written_name, value, index, index)
        else:
            reading.not_understood = word
        return index + 1
    kind = _get_kind(name, reading.table)
    if kind == NOTHING and equals:
        reading.sure = reading.sure and name in MIRAGE_FLAGS
        reading.not_understood = word
    if equals or kind != VALUE:
        _add_option(reading, name, value if equals else None, index, index)
        return index + 1
    if index + 1 >= len(reading.words):
        reading.not_understood = word
        return index + 1
    _add_option(reading, name, reading.words[index + 1], index, index + 1)
    return index + 2


def _get_kind(name, table):
    if name in MIRAGE_NAMES:
        return NOTHING if name in MIRAGE_FLAGS else VALUE
    return table.get_kind(name)


def _read_short_options(reading, index):
    """Read `-N2`, `-N 2`, `-HQ`, `-HN2` and the like."""
    word = reading.words[index]
    for i in range(1, len(word)):
        letter, rest = word[i], word[i + 1 :]
        kind = reading.table.letters.get(letter)
        name = SHORT_NAMES.get(letter, letter)
        last = index
        if kind == NOTHING:
            value = None
        elif kind == MAYBE:
            value = rest or None
        elif kind == VALUE and (rest or index + 1 < len(reading.words)):
            last = index if rest else index + 1
            value = rest or reading.words[index + 1]
        else:
            reading.sure = kind is not None and reading.sure
            reading.not_understood = word
            return index + 1
        option = _add_option(reading, name, value, index, last)
        option.letter, option.kind = letter, kind
        if kind != NOTHING:
            return last + 1
    return index + 1
