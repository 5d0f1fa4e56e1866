"""What `mirage doctor` says of slurmrestd, where the service goes through it."""

from collections.abc import Iterator

from mirage.bootstrap import wiring
from mirage.config.settings import Settings

_MASTERS = frozenset({"root", "slurm"})


def check_slurmrestd(settings: Settings) -> tuple[str, list[str]]:
    """What there is, and what is lacking, a sentence each. Asks as the service would.

    Raises ClusterUnavailable where there is no answer.
    """
    slurm = wiring.build_slurmrestd_client(settings)
    spoken, nodes = slurm.get_dialect(), slurm.fetch_nodes()
    told = f"slurmrestd at {settings.cluster.rest_url} speaks {spoken.version}: {len(nodes)} nodes"
    lacking = []
    if not spoken.accounting:
        lacking.append("serves no accounting (start it without -s, or name that plugin in -s too)")
    if slurm.commands is None:
        lacking.append("without scontrol on PATH nothing is suspended and slurm.conf is not known")
    if not spoken.is_tested:
        lacking.append(f"{spoken.version} was never tried: Mirage knows its documents alone")
    return told, [*lacking, *_check_token(settings)]


def _check_token(settings: Settings) -> Iterator[str]:
    file = wiring.build_token_file(settings)
    if file is None:
        return
    if file.load_token().user in _MASTERS:
        yield (
            f"{file.path} is {file.load_token().user}'s and may act as anybody: "
            "an Operator's will do"
        )
