"""Every knob of the service, with unit and default: one TOML file, checked whole."""

import os
import pwd
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from mirage.config import config_file
from mirage.config.config_file import RawConfig
from mirage.config.paths import DEFAULT_PORT, get_user_state_dir
from mirage.config.policy_names import POLICY_NAMES
from mirage.config.quota_settings import QuotaSettings, RetentionSettings
from mirage.config.schema import SECRET
from mirage.config.schema import Section as _Section

CONFIG_PATH = Path("/etc/mirage/mirage.toml")

_MODEL = re.compile(r"models(/[A-Za-z0-9_][A-Za-z0-9._-]*){1,2}")
_POLICIES = (*POLICY_NAMES, "models/NAME", "models/NAME/VERSION")


def _validate_policy_name(name: str) -> str:
    """Return the name if it has the form of a policy's name; raises ValueError if not.

    Whether a model can be used is checked where it is loaded (`wiring.build_rules`).
    """
    if name not in POLICY_NAMES and _MODEL.fullmatch(name) is None:
        raise ValueError(f"there are {', '.join(_POLICIES)}")
    return name


PolicyName = Annotated[
    str, AfterValidator(_validate_policy_name), WithJsonSchema({"enum": _POLICIES})
]

_REST_URL = r"^(unix:/\S+|https?://[^\s/@]+/?)$"
Hidden = Literal["jobs", "usage", "nodes", "partitions"]
"""Words of Slurm's PrivateData that Mirage has a view of (domain/access/caller.py)."""

THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1"})

_ADDRESS = r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,253}"
MailAddress = Annotated[str, Field(pattern=f"^{_ADDRESS}$")]


Origin = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9][A-Za-z0-9._-]{0,252}(:[0-9]{1,5})?$")]


def _validate_owner_address(template: str | None) -> str | None:
    if template is None:
        return None
    address = re.fullmatch(_ADDRESS, template.replace("{user}", "u"))
    if template.count("{user}") != 1 or address is None:
        raise ValueError("an address with {user} in it, such as {user}@example.org")
    return template


_Seconds = Annotated[int, Field(gt=0, le=31 * 86400)]
_Hours = Annotated[float, Field(ge=0)]


class ClusterSettings(_Section):
    name: str = Field("cluster", min_length=1, max_length=40)
    """Slurm's ClusterName; every row of the database carries it."""
    file: Path | None = None
    """Its cluster file, of `mirage cluster import`: without one, trained models are not asked."""
    command_timeout_s: _Seconds = 15
    """A Slurm command, or slurmrestd, that has not answered by then is given up; seconds."""
    transport: Literal["cli", "rest"] = "cli"
    """Slurm is reached through its commands on this host, or through slurmrestd."""
    rest_url: Annotated[str | None, Field(pattern=_REST_URL)] = None
    """Where slurmrestd listens: `unix:/path/of/socket`, `http://host:port` or `https://...`."""
    rest_token_file: Path | None = None
    """Holds the service's Slurm JWT, mode 0600, read at each request; unset: slurmrestd knows its
    caller by the socket (rest_auth/local)."""
    rest_user: str = ""
    """Whose token it is, where the token does not say so itself."""
    rest_token_command: tuple[str, ...] = ()
    """The site's helper that prints a user's short-lived token when run with the user's name, for
    chains of mode submit; empty: nothing is submitted for users this way."""

    @model_validator(mode="after")
    def _check_rest_url(self) -> Self:
        if self.transport == "rest" and self.rest_url is None:
            raise ValueError('transport = "rest" needs rest_url')
        return self


class DatabaseSettings(_Section):
    url: str | None = Field(None, json_schema_extra=SECRET)
    """SQLAlchemy URL; SQLite in `service.state_dir` when unset."""


class ServiceSettings(_Section):
    host: str = "127.0.0.1"
    """The address that the API listens on. Who may read and change what: docs/admin/identity.md."""
    port: int = Field(DEFAULT_PORT, ge=0, le=65535)
    """0: any free one; the log says which."""
    state_dir: Path = Path("/var/lib/mirage")
    """The SQLite database, and the kill switch: a file named `shadow` stops all acting."""
    admins: tuple[str, ...] = ("root",)
    """Users who may set modes and the kill switch, read the audit, and act on any chain; with them
    Slurm's Operators and Administrators, and `auth.admin_groups`."""
    root_path: str = Field("", pattern=r"^(/[A-Za-z0-9._~-]+)*$", max_length=200)
    """Where a proxy has it below its own root, such as /mirage; whether the proxy takes that off or
    leaves it on."""
    origins: tuple[Origin, ...] = ()
    """Where browsers and clients reach it by other names than its machine's own, without the path:
    `https://hpc.example.org`. It answers to no name else; sessions at a name with https are kept in
    a `__Host-` cookie, which is sent over https alone."""
    socket: Path | None = None
    """A unix socket that the API listens on as well: its callers are known by the kernel's word."""
    proxies: tuple[str, ...] = ()
    """Accounts of this host (by name or uid), addresses and networks that pass on the requests of
    many people: a proxy, or a login node. A connection from one of them says nothing about who
    asks: only the credential in the request counts. Each may hold three quarters of
    `connections.most`. The accounts www-data, nginx, apache, haproxy and caddy always count."""


class ConnectionSettings(_Section):
    """Limits how many may connect at once, and how long one may take (docs/admin/install.md)."""

    most: int = Field(512, ge=16, le=100_000)
    """Connections at once; fewer where the process may not have twice as many descriptors."""
    of_one: int = Field(64, ge=1)
    """Connections of one client: a network address (a /64 of IPv6), or a user of this host."""
    head_s: _Seconds = 10
    """For the whole head of a request, from its first byte or the connection's beginning; seconds.
    """
    body_s: _Seconds = 20
    """For its whole body; seconds."""
    idle_s: _Seconds = 5
    """Between two requests on one connection; seconds."""


class AuthSettings(_Section):
    """Sets who is believed, and what is shown to whom (docs/admin/identity.md)."""

    admin_groups: tuple[str, ...] = ()
    """Unix groups whose members are admins."""
    hide: tuple[Hidden, ...] = ()
    """What users see only of their own, beside what Slurm's PrivateData names."""
    munge_without_cluster: bool = True
    """Whether MUNGE credentials of older plugins, which name no cluster and so are good at every
    service with this key, are taken for what those ask: to register a chain, when to submit the
    next link, that a job has ended. The log names each user who sends one."""
    slurm_s: _Seconds = 600
    """Between two questions to Slurm who is Operator or coordinator, and what is private; seconds.
    """
    jwt_key_file: Path | None = None
    """Slurm's own key of JSON web tokens (HS256). Who can read it can act as anybody in Slurm:
    where the site has public keys, name those instead."""
    jwks_file: Path | None = None
    """The public keys (RS256) as a JSON web key set; at most one of the three may be set."""
    jwks_url: str | None = Field(None, pattern=r"^https?://[^\s]+$")
    """The same from an address, asked at the first token and for keys not known yet."""
    jwt_audience: str | None = Field(None, min_length=1, max_length=256)
    """What `aud` of a JSON web token must hold; unset: it is not looked at."""
    jwt_max_lifetime_s: _Seconds = 86400
    """A JSON web token that is good for longer from now is refused; seconds."""

    @model_validator(mode="after")
    def _check_one_jwt_source(self) -> Self:
        given = (self.jwt_key_file, self.jwks_file, self.jwks_url)
        if sum(source is not None for source in given) > 1:
            raise ValueError("set one of auth.jwt_key_file, jwks_file and jwks_url, or none")
        return self


class SubmitSettings(_Section):
    """Chains without a standby (mode `submit`): by default the running link submits the next one.
    (`cluster.rest_token_command` is another way.)"""

    sudo: Path | None = None
    """`mirage-link` as users have it, such as /opt/mirage/slurm_plugin/mirage-link: run through
    sudo as the chain's owner, by the rule of deploy/sudoers/mirage."""


class PollingSettings(_Section):
    """Sets how often Slurm is asked: the budget of questions of the whole service."""

    queue_s: _Seconds = 60
    """Between two looks at the queue (`squeue`); also the tick in which it is decided. Seconds."""
    nodes_s: _Seconds = 120
    """Between two looks at the nodes (`sinfo`); seconds."""
    pushed_queue_s: _Seconds = 120
    """Between two looks at the queue while slurmctld tells of ends by itself
    (slurm_plugin/hooks/mirage-push); seconds."""
    pushers: tuple[str, ...] = ("root", "slurm")
    """Users that are believed to be slurmctld: SlurmUser."""
    history_s: _Seconds = 300
    """Between two questions to accounting (`sacct`); seconds."""
    diag_s: int = Field(600, ge=0, le=31 * 86400)
    """Between two questions to slurmctld what it was asked, and by whom (`sdiag`); seconds; 0: it
    is not asked."""


class ProvisionSettings(_Section):
    policy: PolicyName = "auto"
    """For chains that name none."""
    models_dir: Path | None = None
    """Holds NAME/VERSION of models; unset: `models` where it starts, or those that came along."""
    tables_dir: Path | None = None
    """Holds the episode tables of the newest days, by which the API and the page Admin judge a
    model before it is promoted; unset: `tables` in `service.state_dir`."""
    max_lead_h: _Hours = 24.0
    """A standby is never freed earlier than this before its predecessor's end; hours."""
    min_gain_s: int = Field(60, ge=0)
    """A shorter forecast wait is not worth a move; seconds."""
    replan_gain: _Hours = 0.1
    """The release that is planned in Slurm is moved where the expected cost saved exceeds this;
    hours."""
    account_overlap_node_h: _Hours = 500.0
    """Overlap that one account may spend in 24 h; node-hours."""
    cluster_overlap_node_h: _Hours = 5000.0
    """Overlap that all may spend in 24 h; node-hours."""
    allow_pin: bool = False
    """Whether a standby may stand on its predecessor's own nodes (pinned)."""
    max_touches: int = Field(6, ge=1)
    """Moves that one hand-over may cost. Mirage does not pin a standby if no move would be left for
    taking it off the nodes again."""
    max_chains_per_user: int = Field(200, ge=1)
    """Live chains of one user that are followed; those beyond run as plain Slurm has them, and are
    taken up as others end."""
    demote_after: int = Field(10, ge=1)
    """Hand-overs whose mean absolute forecast error is held against `demote_error_h`."""
    demote_error_h: float = Field(12.0, gt=0)
    """A larger mean error turns mode act into shadow; hours."""


class NotifySettings(_Section):
    """Mail and webhook on what becomes of chains (docs/admin/notify.md). Unset: nobody is told."""

    smtp_host: str | None = Field(None, min_length=1, max_length=253)
    """The mail server; unset: no mail."""
    smtp_port: int = Field(25, ge=1, le=65535)
    """Its port."""
    smtp_security: Literal["none", "starttls", "tls"] = "starttls"
    """How mail goes there; `none` for a server on this host."""
    smtp_user: str = ""
    """Who logs in there; empty: nobody does."""
    smtp_password_file: Path | None = None
    """Holds the password of `smtp_user`, mode 0600, read at each mail."""
    mail_from: MailAddress | None = None
    """The sender of mail."""
    owner_address: Annotated[str | None, AfterValidator(_validate_owner_address)] = None
    """A chain's owner's address, with `{user}` for the name in Slurm: `{user}@example.org`; unset:
    owners get no mail."""
    admin_addresses: tuple[MailAddress, ...] = ()
    """Who is told of every chain."""
    webhook_url_file: Path | None = None
    """Holds the address that digests are posted to, mode 0600 (whoever knows it may post): https,
    or http on this host."""
    webhook_secret_file: Path | None = None
    """Holds the key of the signature in `Mirage-Signature`, mode 0600; unset: none is sent."""
    interruption_h: float = Field(1.0, gt=0)
    """An interruption is told of once it is longer; hours."""
    chain_every_s: _Seconds = 900
    """Between two digests on one chain; what happens meanwhile is in the second; seconds."""
    max_per_hour: int = Field(60, ge=1)
    """Digests in an hour by each channel, of all chains; the others wait."""

    @model_validator(mode="after")
    def _check_mail(self) -> Self:
        if self.smtp_host is not None and self.mail_from is None:
            raise ValueError("smtp_host needs mail_from")
        if self.smtp_host is not None and not (self.owner_address or self.admin_addresses):
            raise ValueError("smtp_host needs owner_address or admin_addresses: whom to mail")
        if self.smtp_password_file and self.smtp_security == "none" and not self.is_smtp_local:
            raise ValueError(
                'a password is not sent unencrypted: set smtp_security to "starttls" or "tls"'
            )
        return self

    @property
    def is_smtp_local(self) -> bool:
        return self.smtp_host in THIS_HOST


class Settings(_Section):
    cluster: ClusterSettings = ClusterSettings()
    database: DatabaseSettings = DatabaseSettings()
    service: ServiceSettings = ServiceSettings()
    connections: ConnectionSettings = ConnectionSettings()
    auth: AuthSettings = AuthSettings()
    submit: SubmitSettings = SubmitSettings()
    polling: PollingSettings = PollingSettings()
    provision: ProvisionSettings = ProvisionSettings()
    notify: NotifySettings = NotifySettings()
    quota: QuotaSettings = QuotaSettings()
    retention: RetentionSettings = RetentionSettings()
    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: colours on a terminal, JSON otherwise."""

    @property
    def database_url(self) -> str:
        given = os.environ.get("MIRAGE_DATABASE_URL") or self.database.url
        return given or f"sqlite:///{self.service.state_dir / 'mirage.db'}"

    @property
    def submits_by_rest(self) -> bool:
        """Return whether slurmrestd submits the links of mode submit, with their owners' tokens."""
        return self.cluster.transport == "rest" and bool(self.cluster.rest_token_command)

    @model_validator(mode="after")
    def _check_one_submit_way(self) -> Self:
        if self.submits_by_rest and self.submit.sudo is not None:
            raise ValueError("set submit.sudo or cluster.rest_token_command, not both")
        return self


def load_settings(path: Path | None) -> Settings:
    """The settings of `path`, or of the file that is implied, and of the environment before it.

    Raises ConfigError with every fault at once.
    """
    return config_file.validate_config(Settings, read_config(path))


def read_config(path: Path | None) -> RawConfig:
    """Read the settings that are given, and where each is set.

    The file is `path`, else the one that MIRAGE_CONFIG names, else /etc/mirage if it exists.
    Variables set keys too. Raises ConfigError for a file that cannot be read.
    """
    return config_file.read_raw_config(Settings, path or _find_config_path(), os.environ)


def load_user_settings(path: Path | None) -> Settings:
    """Return the settings of a user's own service.

    The file is `path`, MIRAGE_CONFIG or ~/.config/mirage/mirage.toml; without a file, the defaults.

    The file cannot change three things: state is in the user's own directory, callers are on this
    host, and the user alone is admin. /etc/mirage and the variables belong to the site.
    """
    given = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".config"
    implied = base / "mirage" / "mirage.toml"
    chosen = path or (None if os.environ.get("MIRAGE_CONFIG") or not implied.exists() else implied)
    named = chosen or (_find_config_path() if os.environ.get("MIRAGE_CONFIG") else None)
    read = config_file.validate_config(Settings, config_file.read_raw_config(Settings, named, {}))
    state = get_user_state_dir()
    me = pwd.getpwuid(os.geteuid()).pw_name
    service = read.service.model_copy(
        update={
            "host": "127.0.0.1",
            "port": read.service.port if "port" in read.service.model_fields_set else 0,
            "state_dir": state,
            "admins": (me,),
            "socket": state / "socket",
        }
    )
    return _UserSettings.model_validate(dict(read) | {"service": service})


class _UserSettings(Settings):
    @property
    def database_url(self) -> str:
        return self.database.url or f"sqlite:///{self.service.state_dir / 'mirage.db'}"


def _find_config_path() -> Path | None:
    if named := os.environ.get("MIRAGE_CONFIG"):
        return Path(named)
    return CONFIG_PATH if CONFIG_PATH.exists() else None
