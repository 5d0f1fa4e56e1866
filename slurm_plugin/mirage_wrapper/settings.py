"""Reads the settings of a chain: found in four places, checked, and brought to one form.

An option wins over the environment. The environment wins over `#SBATCH --mirage-` and `#MIRAGE`
lines in the script, and these win over `--comment=mirage:...`. Not loaded by a call that asks for
nothing.
"""

from mirage_duration import DIGITS, parse_duration
from mirage_wrapper.invocation import CARRIER_MARK, NotAsked, Refused, format_word, read_directives
from mirage_wrapper.options import MIRAGE, MIRAGE_FLAGS, MIRAGE_NAMES

MAX_LINKS = 1000
MAX_PRESUBMITTED = 100  # the last depends on all before it, and slurmctld tests each
MAX_PRICE = 100.0  # what the service accepts
MAX_RETURNS = 9
ANY_LINKS = MAX_LINKS  # of a chain that ends by its total
DEFAULTS = {
    "continue": "TIMEOUT,PREEMPTED,NODE_FAIL,COMPLETED,FAILED",
    "min-runtime": "10:00",
    "mode": "standby",
    "presubmit": "next",
    "returns": "2",
    "service": "site",
    "style": "sequential",
}
CHOICES = {
    "mode": ("standby", "submit"),
    "presubmit": ("next", "all"),
    "service": ("site", "none"),
    "style": ("sequential", "concurrent", "switch", "wait", "serve"),
}
# As sacct names them. CANCELLED is not among them: scancel ends a chain.
END_STATES = frozenset("COMPLETED FAILED NODE_FAIL PREEMPTED TIMEOUT".split())
NAMES = frozenset(name[len(MIRAGE) :] for name in MIRAGE_NAMES)
FLAGS = frozenset(name[len(MIRAGE) :] for name in MIRAGE_FLAGS)
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@/+-")
TAG = "mirage:"
ASKING = frozenset(["chain", "total"])  # the other settings ask for no chain


class Settings(object):
    """A chain as asked for; durations in seconds, None where nothing was said and none is implied.

    `max_overlap_s` of 0: no overlap ever; of None: what each link works out (carrier_overlap.sh).
    `lead_s` of None: what service or link forecast; of 0: no release is planned.
    `asked`: the names that were given, by whatever way.
    """

    __slots__ = (
        "asked",
        "checkpoint",
        "continue_after",
        "lead_s",
        "links",
        "max_overlap_s",
        "min_runtime_s",
        "mode",
        "overlap_price",
        "policy",
        "presubmit",
        "returns",
        "service",
        "style",
        "total_s",
        "until_file",
    )

    def __init__(self, asked):
        given = dict(DEFAULTS)
        given.update(asked)
        self.asked = frozenset(asked)
        self.links = _parse_links(given["chain"]) if "chain" in given else ANY_LINKS
        self.total_s = parse_seconds("total", given.get("total"), 1)
        self.until_file = _check_path("until-file", given.get("until-file"))
        self.policy = _check_name(given.get("policy"))
        self.overlap_price = _parse_price(given.get("overlap-price"))
        self.max_overlap_s = parse_seconds("max-overlap", given.get("max-overlap"), 0)
        self.lead_s = parse_seconds("lead", given.get("lead"), 0)
        self.returns = _parse_returns(given["returns"])
        self.service = _check_choice("service", given["service"])
        self.min_runtime_s = parse_seconds("min-runtime", given["min-runtime"], 0)
        self.presubmit = _check_choice("presubmit", given["presubmit"])
        self.style = _check_choice("style", given["style"])
        self.mode = _check_choice("mode", given["mode"])
        self.continue_after = _parse_states(given["continue"])
        self.checkpoint = _check_path("checkpoint", given.get("checkpoint"))
        if self.presubmit == "all" and self.links > MAX_PRESUBMITTED:
            raise Refused(
                "--mirage-presubmit=all takes --mirage-chain=N with N up to %d"
                % (MAX_PRESUBMITTED,)
            )
        if self.presubmit == "all" and self.mode == "submit":
            raise Refused("--mirage-presubmit=all and --mirage-mode=submit exclude each other")


def read_settings(call, head):
    """Read this call's settings of a chain; None if it asks for no chain."""
    call.said = read_directives(head, call.read_words)
    return find_settings(call.reading, call.said, call.environ, head, call.get_comment())


def find_settings(reading, directives, environ, head, comment):
    """The settings that this call asks for, or None where it asks for no chain.

    `directives` are the script's own, `head` its leading comment block, `comment` the job's whole
    comment.
    """
    said, wrong = parse_comment(comment)[1:]
    _merge_settings(said, _read_script(head, wrong))
    _merge_settings(
        said, _read_options(directives)
    )  # SPANK hears them too late where a word asks already
    environment = _read_environment(environ)
    none = environment.get("chain") == "0"
    for place in (said, environment) if none else ():
        for name in ASKING.intersection(place):
            del place[name]
    in_script = bool(said)
    _merge_settings(said, environment)
    words = _read_words(reading)
    _merge_settings(said, words)
    if ASKING.intersection(said):
        if wrong:
            raise Refused(wrong[0])
        settings = Settings(said)
        _refuse_long_lead(settings, reading, directives, environ)
        return settings
    # A profile may set MIRAGE_MAX_OVERLAP and the like for all the chains to come.
    if none or not (wrong or in_script or words):
        return None
    useless = "--mirage-%s means nothing without --mirage-chain=N or --mirage-total=TIME"
    if words:
        raise Refused(useless % (sorted(words)[0],))
    # A comment need not have been meant for us: no reason to keep a job back.
    raise NotAsked(wrong[0] if wrong else useless % (sorted(said)[0],))


def _refuse_long_lead(settings, reading, directives, environ):
    """A lead beyond the time limit, where the submission names one that reads."""
    limit = (
        reading.get_value("time") or environ.get("SBATCH_TIMELIMIT") or directives.get_value("time")
    )
    if not (limit and settings.lead_s):
        return
    try:
        limit_s = parse_seconds("time", limit, 1)
    except Refused:
        return  # UNLIMITED, or sbatch's to refuse
    if settings.lead_s > limit_s:
        raise Refused("--mirage-lead is longer than the time limit of %s" % (format_word(limit),))


def _merge_settings(said, more):
    """Lay one place's settings over those of a lesser one; `never-overlap` is max-overlap 0."""
    if more.pop("never-overlap", None) is not None:
        more["max-overlap"] = "0"
    said.update(more)


def parse_comment(comment):
    """Split a comment into the user's own words, the settings in it, and what is wrong with these.

    Ours is a word `mirage:NAME=VALUE,...` that begins with a name we know; all else is the
    user's, be it `mirage:` or not.
    """
    at = 0
    while True:
        at = comment.find(TAG, at)
        if at < 0:
            return comment, {}, []
        end = at
        while end < len(comment) and not comment[end].isspace():
            end += 1
        if (at == 0 or comment[at - 1].isspace()) and _is_ours(comment[at + len(TAG) : end]):
            said, wrong = {}, []
            _merge_settings(said, _parse_items(comment[at + len(TAG) : end], wrong))
            rest = comment[:at].rstrip() + " " * bool(comment[:at].strip()) + comment[end:].lstrip()
            return rest.rstrip() if not comment[end:].strip() else rest, said, wrong
        at = end


def _is_ours(text):
    name, equals, _ = text.split(",")[0].partition("=")
    return name in FLAGS if not equals else name in NAMES - FLAGS


def _parse_items(text, wrong):
    """The settings of `NAME=VALUE,FLAG,...`; the states of `continue` are parted by commas too."""
    said = {}
    last = None
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals and item in FLAGS:
            said[item] = ""
        elif not equals and item and last == "continue":
            said[last] += "," + item
            continue
        elif not equals or name not in NAMES or name in FLAGS:
            wrong.append("unknown setting in --comment=mirage:...: %s" % (format_word(item),))
            if name in ASKING:
                said[name] = value
        else:
            said[name] = value
        last = name
    return said


def _read_words(reading):
    unknown = reading.not_understood
    for word in reading.list_own_words():
        name = word[2:].split("=")[0]
        if word.startswith("--" + MIRAGE):
            if name not in MIRAGE_NAMES:
                from mirage_wrapper import usage

                given = format_word(word.split("=")[0])
                raise Refused("no option %s%s" % (given, usage.suggest_option(name)))
            if word == unknown:
                flag = name in MIRAGE_FLAGS
                raise Refused("--%s %s" % (name, "takes no value" if flag else "needs a value"))
    return _read_options(reading)


def _read_options(reading):
    said = {}
    for option in reading.options:
        if option.name in MIRAGE_NAMES:
            name = option.name[len(MIRAGE) :]
            _merge_settings(said, {name: option.value or ""})
    return said


def _read_environment(environ):
    said = {}
    for name in NAMES:
        value = environ.get("MIRAGE_" + name.upper().replace("-", "_"), "")
        if value and not (name in FLAGS and value == "0"):
            said[name] = value
    if environ.get("MIRAGE_LINK"):
        said.pop("style", None)  # inside a link it tells of that link's own chain
    return said


def _read_script(head, wrong):
    said = {}
    if b"#MIRAGE" not in head or CARRIER_MARK in head:
        return said
    for line in head.split(b"\n"):
        words = line.decode("utf-8", "surrogateescape").split()
        if not words or words[0] != "#MIRAGE":
            continue
        for word in words[1:]:
            if word.startswith("#"):
                break
            name, equals, value = word.lstrip("-").partition("=")
            dashes = word == "--" + word.lstrip("-")
            if not dashes or name not in NAMES or (name in FLAGS) == bool(equals):
                wrong.append("unknown setting in a #MIRAGE line: %s" % (format_word(word),))
                if name not in ASKING or not (dashes or equals):
                    continue
            _merge_settings(said, {name: value})
    return said


def _parse_links(text):
    digits = text and len(text) < 9 and DIGITS.issuperset(text)
    if not (digits and 1 <= int(text) <= MAX_LINKS):
        raise Refused("a chain has 1 to %d links, not %s" % (MAX_LINKS, format_word(text)))
    return int(text)


def _check_name(text):
    if text is not None and not (text and len(text) <= 80 and NAME_CHARACTERS.issuperset(text)):
        raise Refused("%s is no name of a policy" % (format_word(text),))
    return text


def _parse_price(text):
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0.0 <= price <= MAX_PRICE:  # also refuses nan
        raise Refused(
            "--mirage-overlap-price is a number from 0 to %g, not %s"
            % (MAX_PRICE, format_word(text))
        )
    return price


def _parse_returns(text):
    if not (len(text) == 1 and text in DIGITS):
        raise Refused(
            "--mirage-returns is a number from 0 to %d, not %s" % (MAX_RETURNS, format_word(text))
        )
    return int(text)


def _check_choice(name, text):
    if text is not None and text not in CHOICES[name]:
        known = ", ".join(CHOICES[name][:-1]) + " or " + CHOICES[name][-1]
        raise Refused("--mirage-%s is %s, not %s" % (name, known, format_word(text)))
    return text


def _parse_states(text):
    states = text.upper().split(",")
    for state in states:
        if state not in END_STATES:
            raise Refused(
                "--mirage-continue is a list of %s, not %s"
                % (",".join(sorted(END_STATES)), format_word(text))
            )
    return ",".join(states)


def _check_path(name, text):
    if text is not None and (not text or "\n" in text):
        raise Refused("--mirage-%s is a path, not %s" % (name, format_word(text)))
    return text


def parse_seconds(name, text, least):
    if text is None:
        return None
    found = parse_duration(text)
    if found is None or found < least:
        raise Refused(
            "--mirage-%s is a time as Slurm writes it (minutes, H:M:S, D-H), not %s"
            % (name, format_word(text))
        )
    return found
