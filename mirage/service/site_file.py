"""Makes a cluster file of what this host's Slurm says, for `mirage cluster import` and for a user's
own service.
"""

import os
from datetime import tzinfo
from pathlib import Path

from mirage.errors import ClusterUnavailable, InputError, MalformedText
from mirage.history.cluster_files.reader import ClusterFile, parse_cluster_file
from mirage.history.cluster_files.writer import render_cluster_file
from mirage.history.site_import import slurm_answers
from mirage.history.site_import.params import ImportedSite, convert_site
from mirage.slurm.text import hostlist


def query_site(zone: tzinfo | None = None) -> ImportedSite:
    """Ask this host's Slurm. Raises ClusterError if Slurm gives no answer that can be read."""
    try:
        return convert_site(slurm_answers.fetch_answers(), zone)
    except MalformedText as error:
        # Slurm in trouble gives half an answer: nothing is wrong with the user's input.
        raise ClusterUnavailable(f"Slurm's answer cannot be read: {error}") from error


def render_site(site: ImportedSite, name: str) -> tuple[str, ClusterFile]:
    """Return the text of the cluster file, and the text read back: a faulty one is no result.

    Raises ConfigError, in which the file is called `name`.
    """
    header = [
        f"Cluster file of {site.params.name}, written by `mirage cluster import`. "
        "docs/admin/clusters.md explains the keys.",
        *site.notes,
    ]
    names = hostlist.compress_hostlist(site.node_names)
    text = render_cluster_file(site.params, header, node_names=names)
    return text, parse_cluster_file(text, name)


def write_atomically(out: Path, text: str) -> None:
    """Write the file, so that a reader finds either the old file or the whole new one."""
    part = out.with_name(f"{out.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
