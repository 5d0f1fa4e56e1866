"""Checks of Slurm: whether it answers, its release, and what the service's account may do there."""

from collections.abc import Iterator

from mirage.cli.doctor.finding import Finding, Severity
from mirage.config.settings import Settings
from mirage.errors import MirageError
from mirage.service import wiring
from mirage.simulator.slurm_release import find_release
from mirage.slurm.clients.cli.client import SlurmCli, get_own_name
from mirage.slurm.clients.cli.command_runner import CommandRunner
from mirage.slurm.clients.cli.permission_probe import is_operator, probe_permissions
from mirage.slurm.clients.permissions import compute_reach
from mirage.slurm.text import releases

_MASTERS = frozenset({"root", "slurm"})


def check_slurm(settings: Settings) -> tuple[Severity, str]:
    """Check that Slurm answers, the way that the service asks it.

    Raises ConfigError if commands are missing, and ClusterUnavailable if Slurm does not answer.
    """
    wiring.check_slurm_commands(settings)
    if settings.cluster.transport == "cli":
        return _check_controller(settings)
    description, missing = _check_slurmrestd(settings)
    return Severity.WARNING if missing else Severity.GOOD, "; ".join([description, *missing])


def _check_controller(settings: Settings) -> tuple[Severity, str]:
    """Check whether slurmctld answers and belongs to the cluster that the settings name."""
    site = SlurmCli(timeout_s=settings.cluster.command_timeout_s).fetch_site_config()
    name = settings.cluster.name
    if site.cluster_name != name:
        return Severity.WARNING, (
            f"Slurm's ClusterName is {site.cluster_name}, and cluster.name is {name}: Mirage may "
            f'mix the history of two clusters. Set cluster.name = "{site.cluster_name}", then '
            "restart the service"
        )
    return Severity.GOOD, f"{site.version}, ClusterName {name}: slurmctld answers"


def _check_slurmrestd(settings: Settings) -> tuple[str, list[str]]:
    """Describe slurmrestd, and list what is lacking, a sentence each.

    The check asks slurmrestd as the service would. Raises ClusterUnavailable if slurmrestd does not
    answer.
    """
    slurm = wiring.build_slurmrestd_client(settings)
    dialect, nodes = slurm.get_dialect(), slurm.fetch_nodes()
    description = (
        f"slurmrestd at {settings.cluster.rest_url} speaks {dialect.version}: {len(nodes)} nodes"
    )
    missing = []
    if not dialect.accounting:
        missing.append(
            "slurmrestd serves no accounting: start it without -s, or name slurmdbd's plugin in -s"
        )
    if slurm.commands is None:
        missing.append(
            "PATH has no scontrol: Mirage cannot hold jobs, and does not know slurm.conf. "
            "Install Slurm's client commands"
        )
    if not dialect.is_tested:
        missing.append(
            f"Mirage was never tried with {dialect.version}, which it knows from Slurm's documents"
        )
    return description, [*missing, *_check_token(settings)]


def _check_token(settings: Settings) -> Iterator[str]:
    file = wiring.build_token_file(settings)
    if file is None:
        return
    if file.load_token().user in _MASTERS:
        yield (
            f"the token in {file.path} belongs to {file.load_token().user}, who may act as any "
            "user: use the token of an Operator instead"
        )


def check_permissions(settings: Settings) -> list[Finding]:
    """Try which jobs the account may change in Slurm, and for whom. Uses up two job ids."""
    timeout_s = settings.cluster.command_timeout_s
    runner, cluster = CommandRunner(timeout_s=timeout_s), SlurmCli(timeout_s=timeout_s)
    try:
        site = cluster.fetch_site_config()
    except MirageError as error:
        return [Finding("moves", Severity.WARNING, str(error))]
    operator = is_operator(runner)
    permissions = probe_permissions(
        runner,
        hides_jobs="jobs" in site.private_data,
        is_operator=operator,
        accounts=_list_coordinated_accounts(cluster),
    )
    moves = [
        Finding(
            f"may {permission.move}",
            Severity.GOOD if permission.may else Severity.WARNING,
            permission.explanation,
        )
        for permission in permissions
    ]
    return [*check_release(site.version, operator=operator), *moves]


def check_release(version: str, *, operator: bool | None) -> list[Finding]:
    """Judge a release of Slurm; `version` is SLURM_VERSION as scontrol prints it."""
    release = releases.parse_version(version)
    if release is None:
        text = f"Mirage knows no release {version!r} of Slurm"
        return [Finding("release", Severity.WARNING, text)]
    faults = [
        *filter(None, [releases.describe_untested(release)]),
        *releases.list_known_faults(release, is_operator=operator),
    ]
    if not faults:
        tested = releases.describe_tested_match(release)
        text = f"{releases.format_release(release)}: Mirage was tried on {tested}"
        return [Finding("release", Severity.GOOD, text)]
    name = releases.format_release(release)
    return [Finding("release", Severity.WARNING, f"{name}: {sentence}") for sentence in faults]


def describe_other_version(settings: Settings, version: str) -> str:
    """Describe how the cluster file's version differs from slurmctld's. Empty if both are of one
    series, or if slurmctld's is not known."""
    cluster = SlurmCli(timeout_s=settings.cluster.command_timeout_s)
    try:
        slurmctld_version = cluster.fetch_site_config().version
    except MirageError:
        return ""  # the check of Slurm itself says so
    file_version = version or str(find_release(version))
    if _parse_series(slurmctld_version) in {(), _parse_series(file_version)}:
        return ""
    return (
        f"slurmctld says {slurmctld_version}, and so its plans may differ from the simulator's. "
        "`mirage cluster import` writes a file with the right SLURM_VERSION"
    )


def _parse_series(version: str) -> tuple[int, ...]:
    return (releases.parse_version(version) or ())[:2]


def _list_coordinated_accounts(cluster: SlurmCli) -> frozenset[str]:
    """List the Slurm accounts that this user coordinates; none if accounting does not answer."""
    try:
        return compute_reach(get_own_name(), cluster.fetch_roster()).accounts
    except MirageError:
        return frozenset()
