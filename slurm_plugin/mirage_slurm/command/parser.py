"""Reads the words of a command line by the grammar, and renders the help."""

import argparse
import sys

from mirage_slurm.command import grammar

_KINDS = {"text": str, "integer": int, "number": float}
_METAVARS = {"text": "TEXT", "integer": "INTEGER", "number": "FLOAT"}


class NotParsed(Exception):
    """The words ask for help or are wrong. `text` is to be printed, and `code` is the exit code."""

    def __init__(self, text, code):
        Exception.__init__(self, text)
        self.text = text
        self.code = code


class Call(object):
    """A command and the values of its options by name, with `chain` and, for submit, `rest`."""

    __slots__ = ("command", "values")

    def __init__(self, command, values):
        self.command = command
        self.values = values


def parse_words(words):
    """Return the Call of these words, the first of which is a group. Raises NotParsed."""
    command = grammar.find_command(words)
    if command is None:
        raise _refuse_group(words)
    rest = words[len(command.words) :]
    own, further = _split_submit(command, rest) if command.words[-1] == "submit" else (rest, [])
    values = vars(_make_parser(command).parse_args(own))
    values["rest"] = further
    return Call(command, values)


def _refuse_group(words):
    """Return the error for words that name no command: the group's help, or why they are wrong."""
    lines = [
        "Usage: mirage %s COMMAND [OPTIONS]" % (words[0],),
        "",
        grammar.GROUPS[words[0]],
        "",
        "Commands:",
    ]
    lines += [
        "  %-10s %s" % (command.words[1], command.text.partition("\n")[0])
        for command in grammar.COMMANDS
        if command.words[0] == words[0]
    ]
    if words[1:2] in ([], ["--help"]):
        return NotParsed("\n".join(lines), 0 if words[1:] else 2)
    what = "option" if words[1].startswith("-") else "command"
    advice = "`mirage %s --help` lists the commands" % (words[0],)
    return NotParsed("mirage: no such %s: mirage %s %s. %s" % (what, words[0], words[1], advice), 2)


def _split_submit(command, words):
    """Return the words for Mirage and those for sbatch. Mirage's options stand in front: they end at
    the first word that is no option. Before that word sbatch's options may stand among them."""
    options = {"--" + option.name for option in command.options}
    own, further, at = [], [], 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        if name == "--help":
            own.append(name)
        elif name in options:
            count = 1 if equals else 2
            own += words[at : at + count]
            at += count - 1
        elif words[at].startswith("-") and words[at] not in ("-", "--"):
            further.append(words[at])
        else:
            break
        at += 1
    if words[at : at + 1] == ["--"]:
        at += 1
    return own, further + words[at:]


class _Parser(argparse.ArgumentParser):
    command = None

    def error(self, message):
        text = "Usage: mirage %s\n\nError: %s (`mirage %s --help` explains the options)" % (
            format_synopsis(self.command), message, " ".join(self.command.words))  # fmt: skip
        raise NotParsed(text, 2)


class _Help(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        raise NotParsed(render_help(parser.command), 0)


def _make_parser(command):
    parser = _Parser(prog="mirage", add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS)
    parser.command = command
    parser.add_argument("--help", nargs=0, action=_Help)
    if command.chain:
        parser.add_argument(
            "chain", metavar="CHAIN_ID", nargs="?" if command.chain == "own" else None, default=""
        )
    for option in command.options:
        name = "--" + option.name
        if option.kind == "flag":
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(
                name,
                type=_make_reader(option),
                default=option.default,
                choices=option.choices or None,
            )
    return parser


def _make_reader(option):
    def read(text):
        try:
            value = _KINDS[option.kind](text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                "%r is not %s" % (text, _METAVARS[option.kind])
            ) from None
        if option.least is not None and not value >= option.least:
            raise argparse.ArgumentTypeError("%s is less than %s" % (text, option.least))
        if option.most is not None and not value <= option.most:
            raise argparse.ArgumentTypeError("%s is more than %s" % (text, option.most))
        return value

    return read


def format_synopsis(command):
    words = list(command.words) + ["[OPTIONS]"]
    if command.chain:
        words.append("CHAIN_ID" if command.chain == "named" else "[CHAIN_ID]")
    if command.words[-1] == "submit":
        words.append("SCRIPT...")
    return " ".join(words)


def render_help(command):
    """Return the help of a command, for a terminal of 80 columns."""
    lines = ["Usage: mirage " + format_synopsis(command), ""]
    for paragraph in command.text.split("\n\n"):
        lines += _wrap(paragraph) + [""]
    if command.chain:
        text = grammar.OWN_CHAIN if command.chain == "own" else grammar.CHAIN
        lines += ["Arguments:"] + _format_entry("CHAIN_ID", text) + [""]
    lines.append("Options:")
    for option in command.options:
        name = "--" + option.name + ("" if option.kind == "flag" else " " + _METAVARS[option.kind])
        lines += _format_entry(name, _describe_option(option))
    lines += _format_entry("--help", "Show this message and exit.")
    lines += ["", "Examples:" if len(command.examples) > 1 else "Example:"]
    for purpose, line in command.examples:
        lines += (["  %s:" % (purpose[0].upper() + purpose[1:],)] if purpose else []) + [
            "    " + line
        ]
    if command.units:
        lines += [""] + _wrap("Units: " + command.units)
    codes = "; ".join("%d %s" % (code, grammar.EXITS[code]) for code in command.exits)
    lines += [""] + _wrap("Exit codes: %s." % (codes,))
    return "\n".join(lines)


def _describe_option(option):
    text = option.help
    if option.choices:
        text += " One of %s." % (", ".join(option.choices),)
    if option.default is not None:
        text += " Default: %s." % (option.default,)
    return text


def _format_entry(name, text):
    lines = _wrap(text, " " * 26)
    if len(name) < 23:
        lines[0] = ("  " + name).ljust(26) + lines[0].lstrip()
        return lines
    return ["  " + name] + lines


def _wrap(text, indent=""):
    import textwrap

    return textwrap.wrap(
        text, 79, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def print_not_parsed(why):
    """Print the help, or what is wrong, and return the exit code."""
    stream = sys.stderr if why.code else sys.stdout
    stream.write(why.text + "\n")
    return why.code
