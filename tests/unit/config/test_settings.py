"""The configuration: its bounds, and faults that are named all at once with their lines."""

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from mirage.cli.admin.config import render_reference
from mirage.config import settings
from mirage.config.policy_names import POLICY_NAMES
from mirage.config.schema import collect_specs, index_by_variable
from mirage.config.settings import Settings
from mirage.errors import ConfigError
from mirage.policies import registry
from tests.support.paths import DATA, DOCS

BOUNDS = [
    ("cluster", "name", "c", ""),
    ("cluster", "name", "c" * 40, "c" * 41),
    ("cluster", "command_timeout_s", 1, 0),
    ("cluster", "command_timeout_s", 31 * 86400, 31 * 86400 + 1),
    ("cluster", "transport", "cli", "ssh"),
    ("cluster", "rest_url", "unix:/run/slurmrestd/socket", "/run/slurmrestd/socket"),
    ("cluster", "rest_url", "https://slurm.example:6820", "https://me:secret@slurm.example"),
    ("service", "port", 0, -1),
    ("service", "port", 65535, 65536),
    ("service", "admins", ["root", "ada"], "root"),
    ("service", "proxies", ["caddy", "10.0.0.0/8"], "caddy"),
    ("service", "root_path", "/tools/mirage", "tools/"),
    ("service", "origins", ["https://hpc.example.org:8443"], ["https://hpc.example.org/mirage"]),
    ("service", "origins", ["http://login1"], ["hpc.example.org"]),
    ("connections", "most", 16, 15),
    ("connections", "of_one", 1, 0),
    ("connections", "head_s", 1, 0),
    ("connections", "body_s", 1, 0),
    ("connections", "idle_s", 1, 0),
    ("auth", "admin_groups", ["hpc"], "hpc"),
    ("auth", "hide", ["jobs", "nodes"], ["secrets"]),
    ("auth", "munge_without_cluster", False, "never"),
    ("auth", "slurm_s", 1, 0),
    ("auth", "jwks_url", "https://login.example.org/jwks", "file:///etc/shadow"),
    ("auth", "jwks_url", "http://127.0.0.7:8000/jwks", "http://login.example.org/jwks"),
    ("auth", "jwks_url", "http://[::1]/jwks", "http://localhost.example.org/jwks"),
    ("auth", "jwks_url", "http://localhost/jwks", "http://localhost@10.0.0.1/jwks"),
    ("auth", "jwt_audience", "mirage", ""),
    ("auth", "jwt_max_lifetime_s", 1, 0),
    ("polling", "queue_s", 1, 0),
    ("polling", "queue_s", 31 * 86400, 31 * 86400 + 1),
    ("polling", "nodes_s", 1, 0.5),
    ("polling", "history_s", 1, -300),
    ("polling", "diag_s", 0, -1),
    ("polling", "pushed_queue_s", 1, 0),
    ("polling", "pushers", ["slurm"], "slurm"),
    ("provision", "policy", "reactive", "best"),
    ("provision", "policy", "models/forest", "models/"),
    ("provision", "policy", "models/forest/ls6-1", "models/../forest"),
    ("provision", "max_lead_h", 0, -0.1),
    ("provision", "max_lead_h", 0.5, float("inf")),
    ("provision", "min_gain_s", 0, -1),
    ("provision", "replan_gain", 0, -0.1),
    ("provision", "user_overlap_node_h", 0, -1),
    ("provision", "account_overlap_node_h", 0, -1),
    ("provision", "cluster_overlap_node_h", 0, float("nan")),
    ("provision", "allow_pin", True, "never"),
    ("provision", "max_touches", 1, 0),
    ("provision", "max_returns", 0, 10),
    ("provision", "max_chains_per_user", 1, 0),
    ("provision", "demote_after", 1, 0),
    ("provision", "demote_error_h", 0.1, 0),
    ("learn", "promote", "never", "always"),
    ("learn", "every_days", 1, 0),
    ("learn", "shadow_days", 1, 0),
    ("learn", "rollback_days", 1, 0),
    ("learn", "budget_h", 0.1, 0),
    ("learn", "memory_gib", 0.5, 0),
    ("learn", "weeks", 520, 521),
    ("learn", "schedule", "off", "nightly"),
    ("slurm", "time_limit_h", 0.5, 0),
    ("slurm", "memory_gib", 0.5, 0),
    ("slurm", "at_once", 1, 0),
    ("quota", "writes_burst", 1, 0),
    ("quota", "writes_per_minute", 1, 0),
    ("quota", "registrations_per_day", 1, 0),
    ("quota", "exports", 2, 1),
    ("quota", "export_s", 10, 9),
    ("quota", "forecasts_per_minute", 1, 0),
    ("quota", "forecasts_asked", 1, 0),
    ("retention", "audit_days", 1, 0),
    ("retention", "audit_admin_days", 36525, 36526),
    ("retention", "empty_chains_days", 1, 0),
    ("notify", "smtp_port", 25, 0),
    ("notify", "smtp_port", 65535, 65536),
    ("notify", "smtp_security", "tls", "ssl"),
    ("notify", "mail_from", "m@example.org", "m@example.org\n"),
    ("notify", "owner_address", "{user}@example.org", "{user}@example.org\n"),
    ("notify", "admin_addresses", ["a@b.c"], ["a"]),
    ("notify", "interruption_h", 0.5, 0),
    ("notify", "chain_every_s", 1, 0),
    ("notify", "max_per_hour", 1, 0),
    ("", "log_format", "json", "xml"),
]


def given(table: str, key: str, value: object) -> dict[str, object]:
    return {table: {key: value}} if table else {key: value}


@pytest.mark.parametrize(("table", "key", "good", "bad"), BOUNDS)
def test_each_setting_has_its_bounds(table: str, key: str, good: object, bad: object) -> None:
    Settings.model_validate(given(table, key, good))
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(given(table, key, bad))
    assert {str(part) for part in caught.value.errors()[0]["loc"]} >= {key}


def test_every_number_and_choice_is_tried_above() -> None:
    tried = {(table, key) for table, key, _, _ in BOUNDS}
    free = {("database", "url"), ("service", "host"), ("service", "state_dir")}
    free |= {("cluster", "rest_token_file"), ("cluster", "rest_user")}
    free |= {("provision", "tables_dir"), ("learn", "folder")}
    free |= {("slurm", key) for key in ("folder", "partition", "account", "qos", "python")}
    free |= {("cluster", "file"), ("provision", "models_dir"), ("service", "socket")}
    free |= {("auth", "jwt_key_file"), ("auth", "jwks_file")}
    free |= {("notify", "smtp_host"), ("notify", "smtp_user"), ("notify", "smtp_password_file")}
    free |= {("notify", "webhook_url_file"), ("notify", "webhook_secret_file")}
    plain = {("", "log_format")}
    tables = {name: type(info.default) for name, info in Settings.model_fields.items()}
    own = {
        (name, key)
        for name, section in tables.items()
        for key in getattr(section, "model_fields", {})
    }
    assert own | plain == tried | free


def test_policies_are_those_there_are() -> None:
    assert POLICY_NAMES == registry.NAMES
    assert Settings().provision.policy == "auto"


def faults(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "mirage.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        settings.load_settings(path)
    assert caught.value.source == str(path)
    return caught.value.faults


def test_faults_come_with_the_line_of_their_key(tmp_path: Path) -> None:
    text = """# the site
colour = "red"
[service]  # where it listens
port = 70000
ports = 1
admins = [
    "root",
    7,
]

[polling]
queue_s = 0
[worker]
x = 1
"""
    assert sorted(faults(tmp_path, text)) == [
        "line 12: polling.queue_s = 0: Input should be greater than 0 (allowed: > 0, <= 2678400)",
        "line 13: unknown key 'worker'",
        "line 2: unknown key 'colour'",
        "line 4: service.port = 70000: Input should be less than or equal to 65535 "
        "(allowed: >= 0, <= 65535)",
        "line 5: unknown key 'service.ports': is 'service.port' meant?",
        "line 6: service.admins.1 = 7: Input should be a valid string",
    ]


def test_lines_of_dotted_keys_and_inline_tables(tmp_path: Path) -> None:
    text = "polling.queue_s = 0\nservice = {port = -1}\ncluster = 5\n"
    assert sorted(faults(tmp_path, text)) == [
        "line 1: polling.queue_s = 0: Input should be greater than 0 (allowed: > 0, <= 2678400)",
        "line 2: service.port = -1: Input should be greater than or equal to 0 "
        "(allowed: >= 0, <= 65535)",
        "line 3: cluster = 5: cluster is a table, [cluster]",
    ]


def test_what_went_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = """[cluster]
rest_token_command = ["/usr/local/bin/token-of"]
[submit]
sudo = "/opt/mirage/slurm_plugin/mirage-link"
"""
    helper, sudo = faults(tmp_path, text)
    assert helper == (
        "line 2: cluster.rest_token_command = ['/usr/local/bin/token-of']: the service no longer "
        "submits links: the running link submits the next one. Remove the key, and with it the "
        "helper that it names. Where nodes may not submit jobs, submit chains with "
        "--mirage-presubmit=all"
    )
    assert sudo.startswith("line 4: submit.sudo = '/opt/mirage/slurm_plugin/mirage-link': the ")
    assert "/etc/sudoers.d/mirage and the drop-in submit-by-sudo.conf" in sudo
    monkeypatch.setenv("MIRAGE_SUBMIT_SUDO", "/x")
    monkeypatch.setenv("MIRAGE_CLUSTER_REST_TOKEN_COMMAND", "/y")
    sudo, helper = sorted(faults(tmp_path, ""), reverse=True)
    assert sudo.startswith("MIRAGE_SUBMIT_SUDO: submit.sudo = '/x': the service no longer")
    assert helper.startswith("MIRAGE_CLUSTER_REST_TOKEN_COMMAND: cluster.rest_token_command = '/y'")


def test_what_went_and_was_not_used_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "mirage.toml"
    path.write_text("[cluster]\nname = 'lab'\nrest_token_command = []\n[submit]\n")
    given = settings.read_config(path)
    assert given.dropped == ("cluster.rest_token_command",)
    assert settings.load_settings(path).cluster.name == "lab"


def test_a_file_that_names_every_default_of_33c702b5_goes_on() -> None:
    path = DATA / "configuration-33c702b5.toml"
    config = settings.read_config(path)
    assert config.dropped == ("cluster.rest_token_command",)
    read = settings.load_settings(path).model_dump(mode="json")
    for table, values in tomllib.loads(path.read_text()).items():
        kept = values if isinstance(values, dict) else {}
        kept.pop("rest_token_command", None)
        assert {key: read[table][key] for key in kept} == kept


@pytest.mark.parametrize(
    ("variable", "database", "expected"),
    [
        ("", "", "sqlite:////srv/state/mirage.db"),
        ("", "postgresql://h/m", "postgresql://h/m"),
        ("sqlite:////tmp/x.db", "postgresql://h/m", "sqlite:////tmp/x.db"),
    ],
)
def test_where_the_database_is(
    monkeypatch: pytest.MonkeyPatch, variable: str, database: str, expected: str
) -> None:
    monkeypatch.setenv("MIRAGE_DATABASE_URL", variable)
    found = Settings.model_validate(
        {"service": {"state_dir": "/srv/state"}, "database": {"url": database}}
    )
    assert found.database_url == expected


def test_which_file_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, other = tmp_path / "named.toml", tmp_path / "other.toml"
    named.write_text("[cluster]\nname = 'named'\n")
    other.write_text("[cluster]\nname = 'other'\n")
    monkeypatch.setenv("MIRAGE_CONFIG", str(named))
    assert settings.load_settings(None).cluster.name == "named"
    assert settings.load_settings(other).cluster.name == "other"
    monkeypatch.delenv("MIRAGE_CONFIG")
    monkeypatch.setattr(settings, "CONFIG_PATH", tmp_path / "none.toml")
    assert settings.load_settings(None) == Settings()


def test_a_variable_goes_before_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "mirage.toml"
    path.write_text("[polling]\nqueue_s = 30\nnodes_s = 90\n")
    for name, text in {
        "POLLING_QUEUE_S": "45",
        "POLLING_NODES_S": "",
        "PROVISION_ALLOW_PIN": "true",
        "SERVICE_ADMINS": "root, ada",
        "AUTH_HIDE": '["jobs"]',
        "CLUSTER_NAME": "8",
    }.items():
        monkeypatch.setenv(f"MIRAGE_{name}", text)
    found = settings.load_settings(path)
    assert (found.polling.queue_s, found.polling.nodes_s) == (45, 90)
    assert found.provision.allow_pin
    assert (found.service.admins, found.auth.hide) == (("root", "ada"), ("jobs",))
    assert found.cluster.name == "8"


def test_a_users_own_service_hears_no_variable_of_the_sites(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIRAGE_POLLING_QUEUE_S", "45")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MIRAGE_CONFIG", raising=False)
    assert settings.load_user_settings(None).polling.queue_s == 60


def test_a_fault_of_a_variable_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MIRAGE_POLLING_QUEUE_S", "soon")
    (told,) = faults(tmp_path, "[polling]\nqueue_s = 30\n")
    assert told.startswith("MIRAGE_POLLING_QUEUE_S: polling.queue_s = 'soon': ")


def test_no_variable_stands_for_two_keys() -> None:
    assert len(index_by_variable(Settings)) == len(collect_specs(Settings))


def test_every_key_is_explained() -> None:
    assert [spec.key for spec in collect_specs(Settings).values() if not spec.meaning] == []


def test_the_reference_is_current() -> None:
    """`mirage config reference >docs/reference/configuration.md` makes it so."""
    committed = DOCS / "reference" / "configuration.md"
    assert committed.read_text() == render_reference()
