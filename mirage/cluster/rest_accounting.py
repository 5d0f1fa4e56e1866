"""A slurmrestd without `/slurmdb`: of a site without accounting, or started without that plugin."""

from mirage.cluster.cli.client import SlurmCli
from mirage.errors import AccountingOff, ClusterError, ClusterUnavailable
from mirage.slurm.rest.envelope import EARLIEST, Dialect


def build_unserved_error(version: Dialect, commands: SlurmCli | None) -> ClusterError:
    """The error of a question about accounting. What scontrol says decides, where there is one.

    Where a site keeps no accounting slurmrestd does not start with that plugin. From 23.11 on it
    loads both by itself, so whoever leaves it out has a reason; v0.0.38 wants both named.
    """
    told = f"slurmrestd serves no /slurmdb/{version.version}"
    if version.version == EARLIEST if commands is None else commands.fetch_site_config().accounting:
        return ClusterUnavailable(f"{told}: start it without -s, or name that plugin in -s too")
    return AccountingOff(
        f"{told}: accounting storage is disabled here, or slurmrestd was started without that "
        "plugin (-s)"
    )
