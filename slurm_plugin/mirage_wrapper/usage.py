"""Holds the text of `sbatch --mirage-help`, and suggests which option was meant.

Loaded when somebody asks, or errs.
"""

from mirage_wrapper.options import MIRAGE, MIRAGE_NAMES

SETTINGS = (
    ("chain=N", "the script runs as N jobs in a row, 1 to 1000"),
    ("total=TIME", "the chain ends when its links have run so long between them"),
    ("until-file=PATH", "the chain ends once this file exists"),
    ("continue=STATES", "ends after which it goes on; all but CANCELLED unless given"),
    ("min-runtime=TIME", "two links in a row that FAILED sooner pause it (10:00)"),
    ("checkpoint=PATH", "two links in a row that leave nothing newer there pause it"),
    ("policy=NAME", "who decides when the next link may start (the service's)"),
    ("overlap-price=X", "hours of interruption that an hour of overlap is worth"),
    ("max-overlap=TIME", "how long before its predecessor's end a link may start"),
    ("lead=TIME", "release the next link so long before the end (0: at it)"),
    ("service=site|none", "none: ask no Mirage service; links plan by what Slurm tells them"),
    ("never-overlap", "the same as --mirage-max-overlap=0"),
    ("presubmit=next|all", "one link stands behind the running one, or all do from the start"),
    ("style=NAME", "sequential (one writer), concurrent, switch, wait or serve"),
    ("mode=NAME", "standby, or submit: no link stands in the queue before its moment"),
    ("help", "this"),
)
TEXT = """\
The script runs as a chain of jobs, each in the queue before the one before it ends:

  sbatch --mirage-chain=8 [sbatch's options] job.sh

%s

Times are sbatch's: minutes, H:M:S, D-H. The options stand before the script; `#MIRAGE --chain=8` in
it and MIRAGE_CHAIN=8 in the environment are the same. Then: mirage chain show, mirage-link status.
`touch $MIRAGE_DIR/done` in the script: the work is finished. To end it: mirage chain cancel.
"""


def render_help():
    return TEXT % ("\n".join("  --mirage-%-20s %s" % one for one in SETTINGS),)


def suggest_option(name):
    """` (did you mean ...?)` of a name that nearly is one of ours, else where they are listed."""
    import difflib

    before = len(MIRAGE)
    known = sorted(known[before:] for known in MIRAGE_NAMES)
    near = difflib.get_close_matches(name[before:], known, 1, 0.7)
    if near:
        return ": did you mean --%s%s?" % (MIRAGE, near[0])
    return " (`sbatch --mirage-help` lists them)"
