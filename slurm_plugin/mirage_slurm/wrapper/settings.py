"""Read the settings of a chain from four places, check them, and bring them to one form.

An option wins over the environment. The environment wins over `#SBATCH --mirage-` and `#MIRAGE`
lines in the script, and these win over `--comment=mirage:...`. Not loaded by a call that asks for
nothing.
"""

from mirage_slurm.client.duration import DIGITS, parse_duration
from mirage_slurm.wrapper.invocation import (
    CARRIER_MARK,
    NotAsked,
    Refused,
    format_word,
    read_directives,
)
from mirage_slurm.wrapper.options import MIRAGE, MIRAGE_FLAGS, MIRAGE_NAMES

MAX_LINKS = 1000
MAX_PRESUBMITTED = 100  # the last link depends on all others, and slurmctld tests each dependency
MAX_PRICE = 100.0  # what the service accepts
MAX_RETURNS = 9
ANY_LINKS = MAX_LINKS  # for a chain that ends by its total
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
# sacct's names. CANCELLED is not among them: scancel ends a chain.
END_STATES = frozenset("COMPLETED FAILED NODE_FAIL PREEMPTED TIMEOUT".split())
NAMES = frozenset(name[len(MIRAGE) :] for name in MIRAGE_NAMES)
FLAGS = frozenset(name[len(MIRAGE) :] for name in MIRAGE_FLAGS)
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@/+-")
TAG = "mirage:"
ASKING = frozenset(["chain", "total"])  # these settings ask for a chain, the others do not


class Settings(object):
    """The settings of a chain; durations in seconds, None for a setting without a value.

    `max_overlap_s` is 0 for no overlap ever, None for what each link computes (carrier/overlap.sh).
    `lead_s` is None for the service's or the link's forecast, 0 for no planned release.
    `stated_names`: the settings that the user has set, in any place.
    """

    __slots__ = (
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
        "stated_names",
        "style",
        "total_s",
        "until_file",
    )

    def __init__(self, stated):
        texts = dict(DEFAULTS)
        texts.update(stated)
        self.stated_names = frozenset(stated)
        self.links = _parse_links(texts["chain"]) if "chain" in texts else ANY_LINKS
        self.total_s = parse_seconds("total", texts.get("total"), 1)
        self.until_file = _check_path("until-file", texts.get("until-file"))
        self.policy = _check_name(texts.get("policy"))
        self.overlap_price = _parse_price(texts.get("overlap-price"))
        self.max_overlap_s = parse_seconds("max-overlap", texts.get("max-overlap"), 0)
        self.lead_s = parse_seconds("lead", texts.get("lead"), 0)
        self.returns = _parse_returns(texts["returns"])
        self.service = _check_choice("service", texts["service"])
        self.min_runtime_s = parse_seconds("min-runtime", texts["min-runtime"], 0)
        self.presubmit = _check_choice("presubmit", texts["presubmit"])
        self.style = _check_choice("style", texts["style"])
        self.mode = _check_choice("mode", texts["mode"])
        self.continue_after = _parse_states(texts["continue"])
        self.checkpoint = _check_path("checkpoint", texts.get("checkpoint"))
        if self.presubmit == "all" and self.links > MAX_PRESUBMITTED:
            raise Refused(
                "--mirage-presubmit=all takes --mirage-chain=N with N up to %d"
                % (MAX_PRESUBMITTED,)
            )
        if self.presubmit == "all" and self.mode == "submit":
            raise Refused("--mirage-presubmit=all and --mirage-mode=submit exclude each other")


def read_settings(call, head):
    """Read this call's settings of a chain; None if it asks for no chain."""
    call.directives = read_directives(head, call.read_words)
    return find_settings(call.reading, call.directives, call.environ, head, call.get_comment())


def find_settings(reading, directives, environ, head, comment):
    """Return the Settings that this call asks for, or None if it asks for no chain.

    `directives`: the script's own; `head`: its leading comment lines; `comment`: the job's whole
    comment. Raises Refused for a bad request, NotAsked for settings without a request.
    """
    values, errors = parse_comment(comment)[1:]
    _merge_settings(values, _read_script(head, errors))
    # The SPANK plugin gets directives too late if a word of the call asks for a chain.
    _merge_settings(values, _read_options(directives))
    environment = _read_environment(environ)
    is_switched_off = environment.get("chain") == "0"
    for place in (values, environment) if is_switched_off else ():
        for name in ASKING.intersection(place):
            del place[name]
    in_script = bool(values)
    _merge_settings(values, environment)
    words = _read_words(reading)
    _merge_settings(values, words)
    if ASKING.intersection(values):
        if errors:
            raise Refused(errors[0])
        settings = Settings(values)
        _refuse_long_lead(settings, reading, directives, environ)
        return settings
    # A profile may set MIRAGE_MAX_OVERLAP and the like for all later chains.
    if is_switched_off or not (errors or in_script or words):
        return None
    useless = "--mirage-%s means nothing without --mirage-chain=N or --mirage-total=TIME"
    if words:
        raise Refused(useless % (sorted(words)[0],))
    # The comment may not be meant for Mirage, so the job is submitted.
    raise NotAsked(errors[0] if errors else useless % (sorted(values)[0],))


def _refuse_long_lead(settings, reading, directives, environ):
    """Raise Refused for a lead longer than the time limit, if the call names a readable limit."""
    limit = (
        reading.get_value("time") or environ.get("SBATCH_TIMELIMIT") or directives.get_value("time")
    )
    if not (limit and settings.lead_s):
        return
    try:
        limit_s = parse_seconds("time", limit, 1)
    except Refused:
        return  # UNLIMITED, or a limit that sbatch will refuse
    if settings.lead_s > limit_s:
        raise Refused("--mirage-lead is longer than the time limit of %s" % (format_word(limit),))


def _merge_settings(values, overriding):
    """Let the settings of one place override those of a lesser one; `never-overlap` is max-overlap 0."""
    if overriding.pop("never-overlap", None) is not None:
        overriding["max-overlap"] = "0"
    values.update(overriding)


def parse_comment(comment):
    """Split a comment into the user's own words, the settings by name, and errors in the settings.

    Mirage's is a word `mirage:NAME=VALUE,...` that begins with a known name; all else is the user's,
    even if it begins with `mirage:`.
    """
    start = 0
    while True:
        start = comment.find(TAG, start)
        if start < 0:
            return comment, {}, []
        end = start
        while end < len(comment) and not comment[end].isspace():
            end += 1
        if (start == 0 or comment[start - 1].isspace()) and _is_ours(
            comment[start + len(TAG) : end]
        ):
            values, errors = {}, []
            _merge_settings(values, _parse_items(comment[start + len(TAG) : end], errors))
            rest = (
                comment[:start].rstrip()
                + " " * bool(comment[:start].strip())
                + comment[end:].lstrip()
            )
            return rest.rstrip() if not comment[end:].strip() else rest, values, errors
        start = end


def _is_ours(text):
    name, equals, _ = text.split(",")[0].partition("=")
    return name in FLAGS if not equals else name in NAMES - FLAGS


def _parse_items(text, errors):
    """Return the settings of `NAME=VALUE,FLAG,...`. Commas also separate the states of `continue`."""
    values = {}
    last = None
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals and item in FLAGS:
            values[item] = ""
        elif not equals and item and last == "continue":
            values[last] += "," + item
            continue
        elif not equals or name not in NAMES or name in FLAGS:
            errors.append("unknown setting in --comment=mirage:...: %s" % (format_word(item),))
            if name in ASKING:
                values[name] = value
        else:
            values[name] = value
        last = name
    return values


def _read_words(reading):
    unknown = reading.not_understood
    for word in reading.list_own_words():
        name = word[2:].split("=")[0]
        if word.startswith("--" + MIRAGE):
            if name not in MIRAGE_NAMES:
                from mirage_slurm.wrapper import usage

                quoted = format_word(word.split("=")[0])
                raise Refused("no option %s%s" % (quoted, usage.suggest_option(name)))
            if word == unknown:
                flag = name in MIRAGE_FLAGS
                raise Refused("--%s %s" % (name, "takes no value" if flag else "needs a value"))
    return _read_options(reading)


def _read_options(reading):
    values = {}
    for option in reading.options:
        if option.name in MIRAGE_NAMES:
            name = option.name[len(MIRAGE) :]
            _merge_settings(values, {name: option.value or ""})
    return values


def _read_environment(environ):
    values = {}
    for name in NAMES:
        value = environ.get("MIRAGE_" + name.upper().replace("-", "_"), "")
        if value and not (name in FLAGS and value == "0"):
            values[name] = value
    if environ.get("MIRAGE_LINK"):
        values.pop("style", None)  # inside a link MIRAGE_STYLE is that of the link's own chain
    return values


def _read_script(head, errors):
    values = {}
    if b"#MIRAGE" not in head or CARRIER_MARK in head:
        return values
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
                errors.append("unknown setting in a #MIRAGE line: %s" % (format_word(word),))
                if name not in ASKING or not (dashes or equals):
                    continue
            _merge_settings(values, {name: value})
    return values


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
        choices = ", ".join(CHOICES[name][:-1]) + " or " + CHOICES[name][-1]
        raise Refused("--mirage-%s is %s, not %s" % (name, choices, format_word(text)))
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
    """Return the seconds of a time as Slurm writes it, None for None. Raises Refused for another text,
    and for less than `least` seconds."""
    if text is None:
        return None
    seconds = parse_duration(text)
    if seconds is None or seconds < least:
        raise Refused(
            "--mirage-%s is a time as Slurm writes it (minutes, H:M:S, D-H), not %s"
            % (name, format_word(text))
        )
    return seconds
