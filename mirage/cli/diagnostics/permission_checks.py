"""What `mirage doctor` says of the service's account in Slurm, and of that Slurm's release."""

from mirage.cli.diagnostics.doctor_result import Finding, Severity
from mirage.cluster.cli.client import SlurmCli, get_own_name
from mirage.cluster.cli.command_runner import CommandRunner
from mirage.cluster.cli.permission_probe import is_operator, probe_permissions
from mirage.config.settings import Settings
from mirage.errors import MirageError
from mirage.services.access.slurm_permissions import compute_reach
from mirage.slurm.text import releases


def check_permissions(settings: Settings) -> list[Finding]:
    """Which moves the account may make, and for whom. Costs two job numbers."""
    timeout_s = settings.cluster.command_timeout_s
    runner, cluster = CommandRunner(timeout_s=timeout_s), SlurmCli(timeout_s=timeout_s)
    try:
        site = cluster.fetch_site_config()
    except MirageError as error:
        return [Finding("moves", Severity.WARNING, str(error))]
    operator = is_operator(runner)
    found = probe_permissions(
        runner,
        hides_jobs="jobs" in site.private_data,
        operator=operator,
        accounts=_list_coordinated_accounts(cluster),
    )
    moves = [
        Finding(f"may {a.move}", Severity.GOOD if a.may else Severity.WARNING, a.told)
        for a in found
    ]
    return [*check_release(site.version, operator=operator), *moves]


def check_release(told: str, *, operator: bool | None) -> list[Finding]:
    """`told`: as scontrol shows SLURM_VERSION."""
    known = releases.parse_release(told)
    if known is None:
        said = f"{told!r} names no release that Mirage knows"
        return [Finding("release", Severity.WARNING, said)]
    wrong = [
        *filter(None, [releases.describe_untested(known)]),
        *releases.list_known_faults(known, operator=operator),
    ]
    if not wrong:
        tried = releases.describe_tested_match(known)
        said = f"{releases.format_release(known)}: Mirage was tried on {tried}"
        return [Finding("release", Severity.GOOD, said)]
    name = releases.format_release(known)
    return [Finding("release", Severity.WARNING, f"{name}: {sentence}") for sentence in wrong]


def _list_coordinated_accounts(cluster: SlurmCli) -> frozenset[str]:
    """Accounts that this account coordinates; none where accounting does not say."""
    try:
        return compute_reach(get_own_name(), cluster.fetch_roster()).accounts
    except MirageError:
        return frozenset()
