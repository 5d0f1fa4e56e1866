"""Builds the recipe of a mode-submit chain's links, for a service that submits by slurmrestd.

The service reads no #SBATCH lines, so it is told what command line, environment and directives come
to. Neither the script nor the environment leaves the user's own files: a link reads them itself
(carrier_standby.sh, mirage_enter).
"""

import json
import os

from mirage_wrapper import carrier, invocation

MOST = 16384
LETTERS = {
    "A": "account",
    "c": "cpus-per-task",
    "C": "constraint",
    "D": "chdir",
    "e": "error",
    "G": "gpus",
    "i": "input",
    "J": "job-name",
    "L": "licenses",
    "n": "ntasks",
    "N": "nodes",
    "o": "output",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
    "w": "nodelist",
    "v": "verbose",
    "x": "exclude",
}
VARIABLES = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_ERROR": "error",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_SOCKET": "gpus-per-socket",
    "SBATCH_GRES": "gres",
    "SBATCH_INPUT": "input",
    "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NETWORK": "network",
    "SBATCH_OPEN_MODE": "open-mode",
    "SBATCH_OUTPUT": "output",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_SIGNAL": "signal",
    "SBATCH_THREADS_PER_CORE": "threads-per-core",
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_WCKEY": "wckey",
}
NOT_ITS = frozenset("begin comment dependency hold ignore-pbs parsable quiet verbose wrap".split())
OTHER_WORDS = (b"#PBS", b"#BSUB")
EXPORTS = frozenset(["export", "export-file"])  # what they set is the user's alone
EXCLUSIVE_OF_EACH_OTHER = frozenset(["mem", "mem-per-cpu", "mem-per-gpu"])


def build_recipe(chain):
    """JSON for the registration; None where a link would not be what sbatch makes of this call."""
    options = _build_options(chain)
    if options is None:
        return None
    recipe = {
        "carrier": chain.get_carrier_path(),
        "directory": os.getcwd(),
        "name": chain.script.name,
        "comment": chain.comment,
        "umask": carrier.read_umask(chain.call.environ),
        "options": options,
    }
    if any(c < " " or c == "\x7f" for c in recipe["carrier"] + recipe["directory"]):
        return None
    try:
        text = json.dumps(recipe)
        json.dumps(recipe, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return None
    return text if len(text) <= MOST else None


def _build_options(chain):
    """Build the options, ranked as sbatch does: directives, the environment, the command line."""
    call = chain.call
    head = invocation.cut_leading_block(chain.script.text)
    if (
        call.reading.components > 1
        or chain.said.components > 1
        or chain.said.has_option("dependency")
    ):
        return None
    if any(word in head for word in OTHER_WORDS):
        return None
    if EXPORTS.intersection(o.name for o in call.reading.options + chain.said.options):
        return None
    variables = [name for name in call.environ if name.startswith("SBATCH_")]
    if not set(variables) <= set(VARIABLES):
        return None
    found = {}
    _apply_options(found, chain.said.options)
    found.update((VARIABLES[name], call.environ[name]) for name in sorted(variables))
    _apply_options(found, call.reading.options)
    if chain.choose_open_mode():
        found["open-mode"] = "append"
    return None if len(EXCLUSIVE_OF_EACH_OTHER.intersection(found)) > 1 else found


def _apply_options(found, options):
    for option in options:
        name = LETTERS.get(option.name, option.name)
        if name in ("requeue", "no-requeue"):
            found["requeue"] = "no" if name == "no-requeue" else option.value or "yes"
        elif name not in NOT_ITS and not name.startswith("mirage-"):
            found[name] = option.value or ""
