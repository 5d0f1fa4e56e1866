"""All checks of an installation, and those of its configuration, database, policy and callers."""

import os
import pwd
import shutil
from contextlib import suppress
from pathlib import Path

from mirage.cli.doctor import host_checks, service_checks, slurm_checks
from mirage.cli.doctor.finding import Finding, Severity, run_check
from mirage.cli.doctor.learn_schedule_checks import check_schedule
from mirage.cli.doctor.learning_checks import check_learning
from mirage.config import settings as settings_file
from mirage.config.settings import Settings
from mirage.database.operations import clusters
from mirage.database.operations.demotions import read_demotions
from mirage.database.schema.engine import mask_url
from mirage.policies.auto_policy import AutoPolicy
from mirage.policies.models.model_policy import ModelPolicy
from mirage.provision.control import kill_switch
from mirage.service import database_setup, wiring
from mirage.shipped_files import load_client_module
from mirage.simulator.slurm_release import describe_planner, is_unchecked

_SLURM = "Slurm"


def run_checks(
    settings: Settings, *, config: Path | None, user: bool, moves: bool, url: str | None
) -> list[Finding]:
    """Run all checks, in the order in which a person mends the faults.

    `config`: the configuration file of the command's option. `user`: check a user's own service.
    `moves`: try which jobs the account may change in Slurm, which uses up two job ids; left out if
    Slurm has a fault. `url`: the address at which clients reach the service.
    """
    findings = [
        *host_checks.check_account(settings.service.state_dir),
        run_check("configuration", lambda: _check_configuration(config, settings)),
        run_check("database", lambda: _check_database(settings)),
        run_check("mode", lambda: _check_mode(settings)),
        run_check(_SLURM, lambda: slurm_checks.check_slurm(settings)),
        run_check("policy", lambda: _check_policy(settings)),
        run_check("cluster file", lambda: _check_cluster_file(settings)),
        run_check("identity", lambda: _check_authentication(settings)),
        *service_checks.check_service(settings, url),
        *host_checks.check_host(settings, user=user),
        run_check("nightly learning", lambda: check_schedule(settings, user=user)),
        run_check("learning", lambda: check_learning(settings)),
    ]
    if moves and all(f.verdict is not Severity.FAULT for f in findings if f.what == _SLURM):
        findings += slurm_checks.check_permissions(settings)
    return findings


def _check_configuration(config_path: Path | None, settings: Settings) -> tuple[Severity, str]:
    """Check the configuration file for settings that may be unintended.

    Also warns of a secret in a file that everybody may read.
    """
    file = config_path or Path(os.environ.get("MIRAGE_CONFIG") or settings_file.CONFIG_PATH)
    if not file.exists():
        return Severity.GOOD, "there is no file: defaults are in force"
    secret = settings.database.url and mask_url(settings.database.url) != settings.database.url
    if secret and file.stat().st_mode & 0o004:
        return Severity.WARNING, (
            f"everybody may read the database's password in {file}: put it into "
            "/etc/default/mirage as MIRAGE_DATABASE_URL"
        )
    warnings = wiring.check_settings(settings)
    return (
        (Severity.WARNING, "; ".join(warnings)) if warnings else (Severity.GOOD, f"{file} is right")
    )


def _check_database(settings: Settings) -> tuple[Severity, str]:
    folder = settings.service.state_dir
    if database_setup.find_database_file(settings) is not None and not os.access(
        folder, os.W_OK, effective_ids=True
    ):
        with suppress(OSError, KeyError):
            owner = pwd.getpwuid(folder.stat().st_uid).pw_name
            if owner != pwd.getpwuid(os.geteuid()).pw_name:
                return Severity.WARNING, (
                    f"the database is {owner}'s, who alone can read it: run "
                    "`mirage-as-service doctor`"
                )
    database_setup.open_store(settings).close()
    database_setup.check_path_security(settings)
    file = database_setup.find_database_file(settings)
    if file is not None and file.stat().st_mode & 0o004:
        return (
            Severity.WARNING,
            f"everybody can read {file}, whatever PrivateData hides: run `chmod o= {file}`",
        )
    return Severity.GOOD, "the database has this program's schema"


def _check_mode(settings: Settings) -> tuple[Severity, str]:
    """Check the modes in force, and whether somebody has pulled the kill switch."""
    store = database_setup.open_store(settings)
    try:
        with store.begin() as tx:
            ids = {name: number for number, name in clusters.list_cluster_names(tx).items()}
            cluster_id = ids.get(settings.cluster.name)
            if cluster_id is None:
                return Severity.GOOD, f"shadow: no service has served {settings.cluster.name} yet"
            modes = clusters.list_modes(tx, cluster_id)
            pulled = kill_switch.list_pulls(tx, cluster_id)
            demotions = read_demotions(tx, cluster_id)
    finally:
        store.close()
    sentences = [f"{name}: {mode}" if name else mode.value for name, mode in sorted(modes.items())]
    if pulled:
        return Severity.WARNING, f"{', '.join(sentences)}; {kill_switch.explain_pulls(pulled)}"
    if demotions:
        return Severity.WARNING, "; ".join(
            [", ".join(sentences), *(demotion.explain() for demotion in demotions)]
        )
    return Severity.GOOD, ", ".join(sentences)


def _check_policy(settings: Settings) -> tuple[Severity, str]:
    """Report which model or rule decides."""
    policy = wiring.get_policy_loader(settings)(settings.provision.policy)
    if isinstance(policy, AutoPolicy):
        models = sum(candidate.scope is not None for candidate in policy.candidates)
        rules = ", ".join(c.name for c in policy.candidates if c.scope is None)
        return Severity.GOOD, f"auto decides, and chooses among {models} models, {rules}"
    if not isinstance(policy, ModelPolicy):
        return Severity.GOOD, f"the rule {policy.name} decides"
    card = policy.artefact.card
    traces = sorted({str(t["trace"]) for t in card.get("trained_on", ())})
    sentence = (
        f"{policy.name} decides: {card['family']}, trained on {', '.join(traces) or 'no trace'}"
    )
    return Severity.GOOD, sentence


def _check_cluster_file(settings: Settings) -> tuple[Severity, str]:
    file = wiring.get_cluster_file(settings)
    if file is not None:
        version = file.params.slurm_version
        difference = slurm_checks.describe_other_version(settings, version)
        verdict = Severity.WARNING if difference or is_unchecked(version) else Severity.GOOD
        description = f"{file.params.name}, {file.params.nodes} nodes, {describe_planner(version)}"
        return verdict, "; ".join(filter(None, [description, difference]))
    policy = wiring.get_policy_loader(settings)(settings.provision.policy)
    if isinstance(policy, AutoPolicy):
        description = (
            "cluster.file is not set: if a link may not be pinned, auto uses no model and no twin"
        )
        return Severity.WARNING, f"{description}. `mirage cluster import` writes a cluster file"
    if policy.needs.observation:
        return Severity.WARNING, wiring.check_settings(settings)[0]
    return Severity.GOOD, "cluster.file is not set, and the policy does not need it"


def _check_authentication(settings: Settings) -> tuple[Severity, str]:
    """Check by which means callers are identified."""
    auth = settings.auth
    wiring.build_jwt_reader(settings)
    if load_client_module("client.credentials").uses_sack(os.environ):
        means = ["Slurm's own socket (SACK)", "tokens"]
    else:
        munge = "MUNGE" if shutil.which("unmunge") else "no MUNGE (unmunge is not on PATH)"
        means = [munge, "tokens"]
    if settings.service.socket is not None:
        means.append(f"the socket {settings.service.socket}")
    if auth.jwks_file is not None or auth.jwks_url is not None:
        means.append("JSON web tokens by public keys")
    if auth.jwt_key_file is not None:
        means.append(
            f"JSON web tokens by {auth.jwt_key_file}, a key that can forge a token of any user"
        )
        return Severity.WARNING, f"{', '.join(means)}: prefer public keys (auth.jwks_file)"
    return Severity.GOOD, ", ".join(means)
