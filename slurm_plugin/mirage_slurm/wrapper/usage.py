"""Hold the text of `sbatch --mirage-help`, and suggest the option that a mistyped one may mean.

Loaded only when somebody asks for help or mistypes an option.
"""

from mirage_slurm.wrapper.options import MIRAGE, MIRAGE_NAMES

SETTINGS = (
    ("chain=N", "the script runs as N jobs in a row, 1 to 1000"),
    ("total=TIME", "the chain ends when its links have run this long in all"),
    ("until-file=PATH", "the chain ends once this file exists"),
    ("continue=STATES", "link ends after which the chain goes on (all but CANCELLED)"),
    ("min-runtime=TIME", "two links in a row that FAILED sooner pause the chain (10:00)"),
    ("checkpoint=PATH", "two links in a row without a newer file there pause the chain"),
    ("policy=NAME", "rule or model that says when the next link may start"),
    ("overlap-price=X", "hours of interruption that an hour of overlap is worth"),
    ("max-overlap=TIME", "how long before its predecessor's end a link may start"),
    ("lead=TIME", "release the next link this long before the end (0: at the end)"),
    ("returns=N", "how often an early link may give its nodes back, 0 to 9 (2)"),
    ("service=site|none", "none: ask no Mirage service; the links plan by Slurm's answers"),
    ("never-overlap", "the same as --mirage-max-overlap=0"),
    ("presubmit=next|all", "queue one link behind the running one, or all from the start"),
    ("style=NAME", "sequential (one writer), concurrent, switch, wait or serve"),
    ("mode=NAME", "standby: queue the next link early; submit: when it may start"),
    ("help", "this text"),
)
TEXT = """\
The script runs as a chain of jobs (links). While one link runs, the next is already in the queue:

  sbatch --mirage-chain=8 [sbatch's options] job.sh

%s

Times are sbatch's: minutes, H:M:S, D-H. The options stand before the script; `#MIRAGE --chain=8` in
the script and MIRAGE_CHAIN=8 in the environment do the same.
To look: mirage chain show ID, or mirage-link status ID. To end the chain: mirage chain cancel ID.
When the work is finished, the script says so with `touch $MIRAGE_DIR/done`.
"""


def render_help():
    return TEXT % ("\n".join("  --mirage-%-20s %s" % setting for setting in SETTINGS),)


def suggest_option(name):
    """Return `: did you mean ...?` for a name that is nearly one of Mirage's options; else say where
    they are listed."""
    import difflib

    prefix_length = len(MIRAGE)
    names = sorted(option[prefix_length:] for option in MIRAGE_NAMES)
    matches = difflib.get_close_matches(name[prefix_length:], names, 1, 0.7)
    if matches:
        return ": did you mean --%s%s?" % (MIRAGE, matches[0])
    return " (`sbatch --mirage-help` lists them)"
