"""Refuse a job that cannot be a chain, in a sentence for the user. A plain call does not load this."""

import os

from mirage_slurm.wrapper.invocation import Refused, find_clusters, format_word


def check_eligibility(reading, directives, environ, head, links):
    """Raise Refused if the job cannot be a link. `directives`: the script's own; `head`: its leading
    comment lines."""

    def has(name):
        return reading.has_option(name) or directives.has_option(name)

    if links > 1 and has_shared_log(reading, directives, environ):
        raise Refused(
            "--open-mode=truncate with one output file for all links: a link that starts early"
            " would empty the log of the link before. Put %j into the file's name, or append"
        )
    pbs = _read_pbs_options(reading, environ, head)
    _check_dependency(reading, directives)
    if has("array") or environ.get("SBATCH_ARRAY_INX") or pbs & {b"-J", b"-t"}:
        raise Refused("a job array cannot be a chain")
    if directives.has_option("hold") or b"-h" in pbs:
        raise Refused("the line #SBATCH --hold would hold every link: use `sbatch --hold` instead")
    if has("wait") or environ.get("SBATCH_WAIT") is not None:
        raise Refused("a job submitted with --wait cannot be a chain")
    if has("uid") or has("gid"):
        raise Refused("a job submitted for somebody else (--uid, --gid) cannot be a chain")
    if has("cluster-constraint") or environ.get("SBATCH_CLUSTER_CONSTRAINT"):
        raise Refused("a job of a federation (--cluster-constraint) cannot be a chain")
    if (reading.get_value("export-file") or "").isdigit():
        raise Refused("--export-file=N is open for this call alone: a chain needs a file's name")
    clusters = find_clusters(reading, directives, environ)
    if "," in clusters or clusters == "all":
        raise Refused(
            "a chain stays on one cluster: name one cluster with -M, not %s" % format_word(clusters)
        )


def _check_dependency(reading, directives):
    """Refuse `singleton`, by which a component waits for all jobs of its name.

    Words of the call replace those of the script, as sbatch ranks them; sbatch reads `singleton` in
    any case.
    """
    for component in range(max(reading.components, directives.components)):
        value = reading.get_value("dependency", component)
        value = directives.get_value("dependency", component) if value is None else value
        terms = (value or "").replace("?", ",").lower().split(",")
        if any(term.strip().startswith("singleton") for term in terms):
            raise Refused(
                "a job with --dependency=singleton cannot be a chain: no link could start early."
                " Leave singleton out: a chain runs one link at a time by itself"
            )


def check_script(text):
    """Refuse a script that only its first link could run. `text` is the whole script, in bytes.

    A job of submitit loads FOLDER/JOB_submitted.pkl, which submitit writes for the first link alone. A
    script that names the job before it hands that file on (docs/use/chain-from-python.md)."""
    if b"submitit.core._submit" in text and b"MIRAGE_PREV_JOBID" not in text:
        raise Refused(
            "a job of submitit looks for a file with its own number, and submitit writes it for the first"
            " link only. Hand the file on in `setup`, as docs/use/chain-from-python.md shows"
        )


def has_shared_log(reading, directives, environ):
    """Return whether each link would empty a file that the link before it may still write."""
    mode = _find_value("open-mode", "", "SBATCH_OPEN_MODE", reading, directives, environ) or ""
    if mode[:1] not in ("t", "T"):  # as sbatch reads it
        return False
    names = [
        _find_value("output", "o", "SBATCH_OUTPUT", reading, directives, environ),
        _find_value("error", "e", "SBATCH_ERROR", reading, directives, environ),
    ]
    return any(name and name != os.devnull and not _has_job_number(name) for name in names)


def find_value(name, letter, variable, call):
    """Return the value of an option of this call, as sbatch ranks the places; None if it is unset."""
    return _find_value(name, letter, variable, call.reading, call.directives, call.environ)


def _find_value(name, letter, variable, reading, directives, environ):
    """Return the value of an option. The command line overrides the environment, and the environment
    overrides the directives, as in sbatch."""
    value = None
    for options, environment_variable in ((directives.options, variable), (reading.options, None)):
        for option in options:
            if option.name in (name, letter):
                value = option.value
        if environment_variable and environ.get(environment_variable):
            value = environ[environment_variable]
    return value


def _has_job_number(pattern):
    """Return whether a file's name has the job's number in it.

    A backslash in the name makes all of it plain.
    """
    import re  # which takes a while, and few calls come here

    return "\\" not in pattern and re.search("%[0-9]*[AjJ]", pattern.replace("%%", "")) is not None


def _read_pbs_options(reading, environ, head):
    """Return the short options in #PBS lines, which sbatch reads too. -J and -t make a job array."""
    if b"#PBS" not in head or reading.has_option("ignore-pbs") or "SBATCH_IGNORE_PBS" in environ:
        return frozenset()
    lines = [line.split() for line in head.split(b"\n") if line.startswith(b"#PBS")]
    return frozenset(word[:2] for words in lines for word in words)
