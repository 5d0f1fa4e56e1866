"""Who may do what by which way: what is expected, and by which sentence of
docs/admin/identity.md."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.paths import DOCS

RULES = DOCS / "admin" / "identity.md"

ACTORS = {
    "no credential": "nobody says who asks",
    "stranger": "a credential that is no good; by hand, a user whom Slurm does not know",
    "bob": "another user, of alice's account",
    "alice": "whose chain it is",
    "coordinator": "of alice's account: carol",
    "Operator": "of Slurm: oscar",
    "admin": "of service.admins and nobody in Slurm's eyes: ada",
    "alice elsewhere": "alice's browser, on a page of another site",
}

ACTIONS = {
    "see": "the chain",
    "pause": "the chain: no further link starts",
    "resume": "the chain, which alice, or Slurm, has stopped",
    "cancel": "the chain",
    "register": "a chain of one's own",
    "take over": "alice's chain: register it as one's own, or give its mark to a job of one's own",
    "price": "of an hour of overlap, of alice's chain",
    "policy": "of alice's chain",
    "release": "the hold of an admin on alice's standby, by pausing and resuming the chain",
}

WAYS = {
    "API": "requests with a token",
    "page": "forms of the pages, with a session",
    "comment": "a job of one's own with a mark in its comment: mirage:<chain>:<link>",
    "file": "in the chain's directory",
    "plugin": "the wrapped sbatch, mirage-link, and the plugin's registration under alice's id",
}

YES, NO, NONE = "yes", "no", "-"

# The cells, as a person reads them. `python -m tests.acceptance.matrix` prints those that it
# found in the same form.
CELLS = """
API             see  pause  resume  cancel  register  take over  price  policy  release
no credential   no   no     no      no      no        no         no     no      no
stranger        no   no     no      no      no        no         no     no      no
bob             no   no     no      no      yes       no         no     no      no
alice           yes  yes    yes     yes     yes       -          yes    yes     no
coordinator     yes  yes    yes     yes     yes       no         no     no      no
Operator        yes  yes    yes     yes     yes       no         no     no      no
admin           yes  yes    yes     yes     yes       no         no     no      no
alice elsewhere -    no     no      no      no        -          no     no      no

page            see  pause  resume  cancel  register  take over  price  policy  release
no credential   no   no     no      no      -         -          -      -       no
stranger        no   no     no      no      -         -          -      -       no
bob             no   no     no      no      -         -          -      -       no
alice           yes  yes    yes     yes     -         -          -      -       no
coordinator     yes  yes    yes     yes     -         -          -      -       no
Operator        yes  yes    yes     yes     -         -          -      -       no
admin           yes  yes    yes     yes     -         -          -      -       no
alice elsewhere -    no     no      no      -         -          -      -       no

comment         see  pause  resume  cancel  register  take over  price  policy  release
no credential   -    -      -       -       -         -          -      -       -
stranger        -    no     no      no      no        no         -      -       no
bob             -    no     no      no      yes       no         -      -       no
alice           -    yes    yes     yes     yes       -          -      -       no
coordinator     -    no     no      no      yes       no         -      -       no
Operator        -    no     no      no      yes       no         -      -       no
admin           -    no     no      no      yes       no         -      -       no
alice elsewhere -    -      -       -       -         -          -      -       -

file            see  pause  resume  cancel  register  take over  price  policy  release
no credential   -    -      -       -       -         -          -      -       -
stranger        no   no     no      no      -         no         -      -       no
bob             no   no     no      no      -         no         -      -       no
alice           yes  yes    yes     yes     -         -          -      -       no
coordinator     no   no     no      no      -         no         -      -       no
Operator        no   no     no      no      -         no         -      -       no
admin           no   no     no      no      -         no         -      -       no
alice elsewhere -    -      -       -       -         -          -      -       -

plugin          see  pause  resume  cancel  register  take over  price  policy  release
no credential   -    -      -       -       -         -          -      -       -
stranger        no   -      no      no      no        no         no     no      no
bob             no   -      no      no      yes       no         no     no      no
alice           yes  -      yes     yes     yes       -          yes    yes     no
coordinator     no   -      no      no      yes       no         no     no      no
Operator        no   -      no      no      yes       no         no     no      no
admin           no   -      no      no      yes       no         no     no      no
alice elsewhere -    -      -       -       -         -          -      -       -
"""

_STEERING = "look at, pause, resume, cancel their own chains"
_MARKS = "the mark counts only if Slurm shows the chain's owner as the job's user"
_FILES = "no role opens the directory to anybody else"
_OWNER = "Only a chain's owner may register the chain and set its price and policy"
_HOLDS = "Mirage releases only its own holds"

# Of each way: the sentence that an action's cells follow, word for word (`test_expected.py`).
SENTENCES = {
    "API": {
        "see": "another user's chain gets the same answer as a chain that does not exist",
        **dict.fromkeys(("pause", "resume", "cancel"), _STEERING),
        "register": "Every known user may register chains of their own",
        **dict.fromkeys(("take over", "price", "policy"), _OWNER),
        "release": _HOLDS,
    },
    "page": {
        "see": "another user's chain gets the same answer as a chain that does not exist",
        **dict.fromkeys(("pause", "resume", "cancel"), _STEERING),
        "release": _HOLDS,
    },
    "comment": {
        **dict.fromkeys(("pause", "resume", "cancel", "take over"), _MARKS),
        "register": "a chain that nobody registered belongs to its first job's user",
        "release": _HOLDS,
    },
    "file": {
        **dict.fromkeys(("see", "pause", "resume", "cancel", "take over"), _FILES),
        "release": _HOLDS,
    },
    "plugin": {
        **dict.fromkeys(("see", "resume", "cancel"), _FILES),
        "register": "Every known user may register chains of their own",
        **dict.fromkeys(("take over", "price", "policy"), _OWNER),
        "release": _HOLDS,
    },
}

# Why a cell has no meaning: of a row first, then of a column of that way.
NO_SUCH_ACTOR = {
    ("comment", "no credential"): "Slurm takes a job from nobody unknown to Unix",
    ("file", "no credential"): "whoever reaches a file is some user of the host",
    ("plugin", "no credential"): "whoever runs a program is some user of the host",
    ("comment", "alice elsewhere"): "a page submits no job",
    ("file", "alice elsewhere"): "a page writes no file",
    ("plugin", "alice elsewhere"): "a page runs no program",
    ("API", "alice elsewhere"): "a browser that comes from elsewhere sends no cookie (SameSite); "
    "what it sent could be read by no script of that site",
    ("page", "alice elsewhere"): "a browser that comes from elsewhere sends no cookie (SameSite); "
    "what it sent could be read by no script of that site",
}
NO_SUCH_ACTION = {
    ("page", "register"): "no page has a form for it",
    ("page", "take over"): "no page has a form for it",
    ("page", "price"): "no page has a form for it",
    ("page", "policy"): "no page has a form for it",
    ("comment", "see"): "a comment shows nothing",
    ("comment", "price"): "a mark holds the chain's id and the link's number, nothing else",
    ("comment", "policy"): "a mark holds the chain's id and the link's number, nothing else",
    ("file", "register"): "the service reads no file of a chain",
    ("file", "price"): "the service reads no file of a chain, and no link knows its price",
    ("file", "policy"): "the service reads no file of a chain, and no link knows its policy",
    ("plugin", "pause"): "mirage-link has no such verb: `mirage chain pause` asks the service",
}
ITS_OWN = "it is hers"
"""Why alice takes nothing over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    way: str
    actor: str
    action: str
    is_to_be: str
    """YES, NO or NONE."""
    why: str
    """The sentence of docs/admin/identity.md; of a cell without meaning, why it has none."""


def cells() -> list[Expected]:
    """In the order in which they stand above."""
    found = []
    for block in CELLS.strip().split("\n\n"):
        head, *rows = block.splitlines()
        way = head.split()[0]
        for row in rows:
            actor = next(name for name in sorted(ACTORS, key=len)[::-1] if row.startswith(name))
            words = row.removeprefix(actor).split()
            for action, word in zip(ACTIONS, words, strict=True):
                found.append(_expected(way, actor, action, word))
    return found


def _expected(way: str, actor: str, action: str, word: str) -> Expected:
    why = SENTENCES[way].get(action, "") if word != NONE else _no_meaning(way, actor, action)
    return Expected(way=way, actor=actor, action=action, is_to_be=word, why=why)


def _no_meaning(way: str, actor: str, action: str) -> str:
    by_action = NO_SUCH_ACTION.get((way, action))
    if by_action is not None:
        return by_action
    return ITS_OWN if action == "take over" and actor.startswith("alice") else _by_actor(way, actor)


def _by_actor(way: str, actor: str) -> str:
    return NO_SUCH_ACTOR.get((way, actor), "")
