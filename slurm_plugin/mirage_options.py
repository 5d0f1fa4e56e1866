"""Read sbatch's words far enough to find the script and the few options that a chain depends on.

This is not sbatch's parser: what it does not know it reports as not understood, and the real
sbatch speaks for itself. The table is that of 22.05 (asked of the binary) and the newer names.
"""

FLAGS = frozenset(
    "contiguous external help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet"
    " reboot requeue spread-job stepmgr test-only usage use-min-nodes verbose version wait".split()
)
OPTIONAL = frozenset(
    "exclusive get-user-env nice no-kill oom-kill-step propagate resv-ports".split()
)
REQUIRED = frozenset(
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment"
    " constraint container container-id core-spec cores-per-socket cpu-freq cpus-per-gpu"
    " cpus-per-task deadline delay-boot dependency distribution error exclude export export-file"
    " extra extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket"
    " gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses mail-type"
    " mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist"
    " nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket"
    " ntasks-per-tres open-mode output partition power prefer priority profile qos reservation"
    " segment signal sockets-per-node switches thread-spec threads-per-core time time-min tmp"
    " tres-bind tres-per-task uid wait-all-nodes wckey wrap".split()
)
MIRAGE = "mirage-"
MIRAGE_FLAGS = frozenset(["mirage-never-overlap"])
MIRAGE_VALUES = frozenset(
    "mirage-chain mirage-checkpoint mirage-continue mirage-max-overlap mirage-min-runtime"
    " mirage-mode mirage-overlap-price mirage-policy mirage-presubmit mirage-style mirage-total"
    " mirage-until-file".split()
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
    "V": "version",
    "W": "wait",
}


class Option(object):
    """One option as it stood: its full name, its value or None, and the words it took."""

    __slots__ = ("component", "first", "last", "letter", "name", "value")

    def __init__(self, name, value, first, last, component):
        self.name = name
        self.value = value
        self.first = first
        self.last = last
        self.component = component
        self.letter = None

    def words(self):
        """A short option written out alone, for one that shared its word with others."""
        word = "-" + self.letter
        if self.value is None:
            return [word]
        return [word + self.value] if self.letter in SHORT_OPTIONAL else [word, self.value]


class Reading(object):
    """What was found in `words`. `insert` is where more options for the first component go."""

    def __init__(self, words):
        self.words = words
        self.options = []
        self.script = None
        self.insert = None
        self.components = 1
        self.not_understood = None

    def last(self, name, component=0):
        """The value that counts of an option that takes one, None where it was not given."""
        found = None
        for option in self.options:
            if option.name == name and option.component == component:
                found = option.value
        return found

    def has(self, name):
        return any(option.name == name for option in self.options)

    def without(self, names, first=0, until=None):
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
                    kept.extend(option.words())
            at = last + 1
        return kept

    def own_words(self):
        """The words before the script: sbatch's, not the script's."""
        return self.words if self.script is None else self.words[: self.script]

    def plain(self):
        """The words with Mirage's own options taken out."""
        return self.without(())


def read(words):
    """Read the words after `sbatch`."""
    reading = Reading(words)
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
            at = _read_long(reading, at)
        elif word.startswith("-") and word != "-":
            at = _read_short(reading, at)
        else:
            break
    if reading.insert is None:
        reading.insert = min(at, len(words))
    if at < len(words) and reading.not_understood is None:
        reading.script = at
    return reading


def _add(reading, name, value, first, last):
    option = Option(name, value, first, last, reading.components - 1)
    reading.options.append(option)
    return option


def _read_long(reading, at):
    word = reading.words[at]
    given, equals, value = word[2:].partition("=")
    name = _full_name(given)
    if name is None:
        if equals:  # a site's plug-in option or a newer one: one word whatever it means
            _add(reading, given, value, at, at)
        else:
            reading.not_understood = word
        return at + 1
    flag = name in FLAGS or name in MIRAGE_FLAGS
    if flag and equals:
        reading.not_understood = word
    if equals or flag or name in OPTIONAL:
        _add(reading, name, value if equals else None, at, at)
        return at + 1
    if at + 1 >= len(reading.words):
        reading.not_understood = word
        return at + 1
    _add(reading, name, reading.words[at + 1], at, at + 1)
    return at + 2


def _full_name(given):
    """Resolve an abbreviation as getopt_long does; None for an unknown or ambiguous one."""
    if given in REQUIRED or given in FLAGS or given in OPTIONAL or given in MIRAGE_NAMES:
        return given
    if given.startswith(MIRAGE):
        return None
    found = [
        name for names in (REQUIRED, FLAGS, OPTIONAL) for name in names if name.startswith(given)
    ]
    return found[0] if len(found) == 1 else None


def _read_short(reading, at):
    """Read `-N2`, `-N 2`, `-HQ`, `-HN2` and the like."""
    word = reading.words[at]
    for i in range(1, len(word)):
        letter, rest = word[i], word[i + 1 :]
        name = SHORT_NAMES.get(letter, letter)
        if letter in SHORT_FLAGS:
            _add(reading, name, None, at, at).letter = letter
        elif letter in SHORT_OPTIONAL:
            _add(reading, name, rest or None, at, at).letter = letter
            return at + 1
        elif letter in SHORT_REQUIRED and (rest or at + 1 < len(reading.words)):
            value = rest or reading.words[at + 1]
            last = at if rest else at + 1
            _add(reading, name, value, at, last).letter = letter
            return last + 1
        else:
            reading.not_understood = word
            return at + 1
    return at + 1
