"""Every setting of the service, with its unit and default. One TOML file sets them all, and Mirage
checks the file as a whole."""

import os
import pwd
import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from mirage.config import config_file
from mirage.config.config_file import RawConfig
from mirage.config.paths import DEFAULT_PORT, get_models_dir, get_user_state_dir
from mirage.config.policy_names import POLICY_NAMES
from mirage.config.schema import SECRET
from mirage.config.schema import Section as _Section
from mirage.domain.callers.this_host import is_this_host
from mirage.domain.chain import MAX_RETURNS


def _check_key_url(url: str) -> str:
    """Refuse an address whose keys anybody between the hosts could replace by their own."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        raise ValueError("that is no URL") from None
    if not url.startswith("https:") and not is_this_host(host):
        raise ValueError(f"{host or url} is not this host, so the address must be https")
    return url


_KeyUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$"), AfterValidator(_check_key_url)]


CONFIG_PATH = Path("/etc/mirage/mirage.toml")

_MODEL = re.compile(r"models(/[A-Za-z0-9_][A-Za-z0-9._-]*){1,2}")
_POLICIES = (*POLICY_NAMES, "models/NAME", "models/NAME/VERSION")


def _validate_policy_name(name: str) -> str:
    """Return the name if it has the form of a policy's name; raises ValueError if not.

    Whether a model can be used is checked where it is loaded (`wiring.build_decision_settings`).
    """
    if name not in POLICY_NAMES and _MODEL.fullmatch(name) is None:
        raise ValueError("no policy has this name")
    return name


PolicyName = Annotated[
    str, AfterValidator(_validate_policy_name), WithJsonSchema({"enum": _POLICIES})
]

_REST_URL = r"^(unix:/\S+|https?://[^\s/@]+/?)$"
Hidden = Literal["jobs", "usage", "nodes", "partitions"]
"""Words of Slurm's PrivateData that Mirage obeys (domain/callers/caller.py)."""

_ADDRESS = r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,253}"
MailAddress = Annotated[str, Field(pattern=f"^{_ADDRESS}$")]


Origin = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9][A-Za-z0-9._-]{0,252}(:[0-9]{1,5})?$")]


def _validate_owner_address(template: str | None) -> str | None:
    if template is None:
        return None
    address = re.fullmatch(_ADDRESS, template.replace("{user}", "u"))
    if template.count("{user}") != 1 or address is None:
        raise ValueError("needs an address with {user} in it, such as {user}@example.org")
    return template


_Seconds = Annotated[int, Field(gt=0, le=31 * 86400)]
_Hours = Annotated[float, Field(ge=0)]


class ClusterSettings(_Section):
    name: str = Field("cluster", min_length=1, max_length=40)
    """Slurm's ClusterName; every row of the database carries it."""
    file: Path | None = None
    """The cluster file, made by `mirage cluster import`. Without one neither trained models nor the
    twin decide."""
    command_timeout_s: _Seconds = 15
    """Mirage gives up a Slurm command or a request to slurmrestd without an answer after this time;
    seconds."""
    transport: Literal["cli", "rest"] = "cli"
    """How Mirage reaches Slurm: `cli`: through Slurm's commands on this host; `rest`: through
    slurmrestd."""
    rest_url: Annotated[str | None, Field(pattern=_REST_URL)] = None
    """The address of slurmrestd: `unix:/path/of/socket`, `http://host:port` or `https://...`."""
    rest_token_file: Path | None = None
    """The file with the service's Slurm JWT, mode 0600; Mirage reads the file at each request.
    Unset: slurmrestd knows its caller by the socket (rest_auth/local)."""
    rest_user: str = ""
    """The user of the token, if the token itself does not name the user."""

    @model_validator(mode="after")
    def _check_rest_url(self) -> Self:
        if self.transport == "rest" and self.rest_url is None:
            raise ValueError('transport = "rest" needs rest_url')
        return self


class DatabaseSettings(_Section):
    url: str | None = Field(None, json_schema_extra=SECRET)
    """The database as a SQLAlchemy URL. Unset: SQLite in `service.state_dir`."""


class ServiceSettings(_Section):
    host: str = "127.0.0.1"
    """The address at which the API listens. docs/admin/identity.md says who may read and change
    what."""
    port: int = Field(DEFAULT_PORT, ge=0, le=65535)
    """The port of the API. 0: any free port, named in the log."""
    state_dir: Path = Path("/var/lib/mirage")
    """The directory of the SQLite database and of the kill switch: a file named `shadow` stops all
    acting."""
    admins: tuple[str, ...] = ("root",)
    """Users who may set modes and the kill switch, read the audit, and act on any chain. Slurm's
    Operators and Administrators and the members of `auth.admin_groups` may do the same."""
    root_path: str = Field("", pattern=r"^(/[A-Za-z0-9._~-]+)*$", max_length=200)
    """The path below which a proxy serves Mirage, such as /mirage. The proxy may remove the path
    from requests or leave it."""
    origins: tuple[Origin, ...] = ()
    """Addresses at which browsers and clients reach the service, beside its machine's own names,
    without the path: `https://hpc.example.org`. The service answers to no other name. At a name
    with https the session's cookie is a `__Host-` cookie, sent over https alone."""
    socket: Path | None = None
    """A unix socket at which the API listens as well. The kernel names its callers."""
    proxies: tuple[str, ...] = ()
    """Accounts of this host (by name or uid), addresses and networks that pass on the requests of
    many people: a proxy, or a login node. For a connection from one of them only the credential in
    the request names the caller. Each may hold three quarters of `connections.most`. The accounts
    Usual accounts of web servers, such as www-data, wwwrun, http and nginx, always count."""


class ConnectionSettings(_Section):
    """Limits the connections at once, and the time of each (docs/admin/install.md)."""

    most: int = Field(512, ge=16, le=100_000)
    """Connections at once. The service takes fewer if its process may not have twice as many
    descriptors."""
    of_one: int = Field(64, ge=1)
    """Connections of one client: a network address (a /64 of IPv6), or a user of this host."""
    head_s: _Seconds = 10
    """The longest time for the whole head of a request, from its first byte or the connection's
    beginning; seconds."""
    body_s: _Seconds = 20
    """The longest time for the whole body of a request; seconds."""
    idle_s: _Seconds = 5
    """The longest time between two requests on one connection; seconds."""


class AuthSettings(_Section):
    """Sets which credentials count, and what is shown to whom (docs/admin/identity.md)."""

    admin_groups: tuple[str, ...] = ()
    """Unix groups whose members are admins."""
    hide: tuple[Hidden, ...] = ()
    """Data of which users see only their own, in addition to Slurm's PrivateData."""
    munge_without_cluster: bool = True
    """Whether Mirage accepts the MUNGE credentials of older plugins. Such a credential names no
    cluster, so it is good at every service with the same key. It can register a chain, ask when to
    submit the next link, and report that a job has ended. The log names each user who sends one."""
    slurm_s: _Seconds = 600
    """The time between two queries of Slurm's Operators, coordinators and PrivateData; seconds."""
    jwt_key_file: Path | None = None
    """The file with Slurm's own key of JSON web tokens (HS256). Anybody who can read this key can
    act as any user in Slurm: if the site has public keys, set `jwks_file` or `jwks_url` instead."""
    jwks_file: Path | None = None
    """The file with the public keys (RS256), a JSON web key set. Set at most one of `jwt_key_file`,
    `jwks_file` and `jwks_url`."""
    jwks_url: _KeyUrl | None = None
    """The address of the public keys: https, or http on this host. Mirage asks it at the first
    token, and for unknown keys."""
    jwt_audience: str | None = Field(None, min_length=1, max_length=256)
    """The value that `aud` of a JSON web token must contain. Unset: Mirage does not check `aud`."""
    jwt_max_lifetime_s: _Seconds = 86400
    """Mirage refuses a JSON web token that is valid for longer than this from now; seconds."""

    @model_validator(mode="after")
    def _check_one_jwt_source(self) -> Self:
        sources = (self.jwt_key_file, self.jwks_file, self.jwks_url)
        if sum(source is not None for source in sources) > 1:
            raise ValueError("set one of auth.jwt_key_file, jwks_file and jwks_url, or none")
        return self


class PollingSettings(_Section):
    """Sets how often the whole service asks Slurm."""

    queue_s: _Seconds = 60
    """The time between two looks at the queue (`squeue`), and between two decisions (ticks);
    seconds."""
    nodes_s: _Seconds = 120
    """The time between two looks at the nodes (`sinfo`); seconds."""
    pushed_queue_s: _Seconds = 120
    """The time between two looks at the queue while slurmctld reports the ends of jobs
    (slurm_plugin/hooks/mirage-push); seconds."""
    pushers: tuple[str, ...] = ("root", "slurm")
    """Users whose reports of ended jobs count as slurmctld's: SlurmUser."""
    history_s: _Seconds = 300
    """The time between two queries of accounting (`sacct`); seconds."""
    diag_s: int = Field(600, ge=0, le=31 * 86400)
    """The time between two queries of slurmctld's own count of RPCs (`sdiag`); seconds. 0:
    never."""


class ProvisionSettings(_Section):
    policy: PolicyName = "auto"
    """The policy of chains that name no policy."""
    models_dir: Path | None = None
    """The folder of models, NAME/VERSION. Unset: `models` in the working directory, else `models`
    in `service.state_dir`, where the service and `mirage learn` show the models that come with
    Mirage beside the site's own."""
    tables_dir: Path | None = None
    """The folder of the episode tables of the newest days. The API and the page Admin judge a model
    by these tables before they promote it. Unset: `tables` in `service.state_dir`."""
    max_lead_h: _Hours = 24.0
    """The longest time before its predecessor's end at which Mirage frees a standby; hours."""
    min_gain_s: int = Field(60, ge=0)
    """Mirage makes no move for a forecast wait shorter than this; seconds."""
    replan_gain: _Hours = 0.1
    """Mirage moves a release planned in Slurm if the expected cost saved exceeds this; hours."""
    user_overlap_node_h: _Hours | None = None
    """The overlap that one user's chains may spend in 24 h; node-hours. One user can use up no more
    of the next two. Unset: half of the smaller of them."""
    account_overlap_node_h: _Hours = 500.0
    """The overlap that one account may spend in 24 h; node-hours."""
    cluster_overlap_node_h: _Hours = 5000.0
    """The overlap that all accounts together may spend in 24 h; node-hours."""
    allow_pin: bool = False
    """Whether Mirage may pin a standby to its predecessor's nodes (docs/concepts/positions.md)."""
    max_touches: int = Field(6, ge=1)
    """The most moves of one hand-over. Mirage does not pin a standby if no move would be left to
    undo the pin."""
    max_returns: int = Field(MAX_RETURNS, ge=0, le=MAX_RETURNS)
    """The most times that an early link gives its nodes back, whatever its user asks for; 0:
    never."""
    max_chains_per_user: int = Field(200, ge=1)
    """The most live chains of one user that Mirage manages. Further chains run as plain Slurm
    chains until others end."""
    demote_after: int = Field(10, ge=1)
    """The number of an owner's last hand-overs whose mean absolute forecast error is compared with
    `demote_error_h`."""
    demote_error_h: float = Field(12.0, gt=0)
    """A mean forecast error above this turns mode act into shadow: for the owner's chains of that
    partition and size, or for all if the median owner's is above it; hours."""


_Days = Annotated[int, Field(ge=1, le=36525)]


class LearnSettings(_Section):
    """Sets how the service learns from its own history (docs/admin/learning.md)."""

    promote: Literal["ask", "auto", "never"] = "ask"
    """What happens to a model that has shown to be cheaper: `ask`: it waits for an admin; `auto`:
    it is put in use; `never`: Mirage only reports it."""
    folder: Path | None = None
    """The folder of tables, candidates and half-done runs. Unset: `learn` in
    `service.state_dir`."""
    every_days: _Days = 7
    """The longest time between two trainings; days."""
    shadow_days: _Days = 14
    """The time for which a new model decides in shadow before it is judged; days."""
    rollback_days: _Days = 21
    """The newest days over which the model in use is compared with the rules; days."""
    budget_h: float = Field(2.0, gt=0)
    """The longest time of one run; hours. A run that is not finished goes on the next night."""
    memory_gib: float = Field(4.0, gt=0)
    """The most memory of one run; GiB."""
    weeks: int = Field(52, ge=1, le=520)
    """The newest weeks of history from which models learn."""
    schedule: Literal["timer", "service", "off"] = "timer"
    """Who starts a run each night: `timer`: mirage-learn.timer of systemd; `service`: the service
    itself; `off`: nobody."""


class SlurmSettings(_Section):
    """Sets what jobs ask for that `--executor slurm` submits (docs/admin/executor.md)."""

    folder: Path | None = None
    """A folder on a file system that the nodes share, in which the jobs read their input and leave
    their results. Unset: there is no `--executor slurm`."""
    partition: str = ""
    """The partition of the jobs. Empty: Slurm's default."""
    account: str = ""
    """The account of the jobs. Empty: the user's default."""
    qos: str = ""
    """The QOS of the jobs. Empty: the user's default."""
    time_limit_h: float = Field(2.0, gt=0)
    """The time limit of each job; hours."""
    memory_gib: float = Field(4.0, gt=0)
    """The memory of each job; GiB."""
    at_once: int = Field(64, ge=1)
    """The tasks of one array that run at once, at most."""
    python: Path | None = None
    """The Python on the nodes that has Mirage. Unset: the one of the command, at the same path."""


class NotifySettings(_Section):
    """Sets mail and webhook about events of chains (docs/admin/notify.md). Unset: no notices."""

    smtp_host: str | None = Field(None, min_length=1, max_length=253)
    """The mail server; unset: no mail."""
    smtp_port: int = Field(25, ge=1, le=65535)
    """The port of the mail server."""
    smtp_security: Literal["none", "starttls", "tls"] = "starttls"
    """The encryption of the connection to the mail server; `none` for a server on this host."""
    smtp_user: str = ""
    """The user name at the mail server; empty: no login."""
    smtp_password_file: Path | None = None
    """The file with the password of `smtp_user`, mode 0600; Mirage reads the file at each mail."""
    mail_from: MailAddress | None = None
    """The sender of mail."""
    owner_address: Annotated[str | None, AfterValidator(_validate_owner_address)] = None
    """The address of a chain's owner, with `{user}` for the name in Slurm: `{user}@example.org`.
    Unset: owners get no mail."""
    admin_addresses: tuple[MailAddress, ...] = ()
    """The addresses that get notices about every chain."""
    webhook_url_file: Path | None = None
    """The file with the webhook's address, mode 0600, since anybody who knows the address may post
    there. The address is https, or http on this host."""
    webhook_secret_file: Path | None = None
    """The file with the key of the signature in `Mirage-Signature`, mode 0600. Unset: no signature
    is sent."""
    interruption_h: float = Field(1.0, gt=0)
    """A notice is sent for an interruption longer than this; hours."""
    chain_every_s: _Seconds = 900
    """The least time between two digests about one chain; seconds. The second digest has all events
    since the first."""
    max_per_hour: int = Field(60, ge=1)
    """The most digests about all chains in an hour, for each channel. Further digests wait."""

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
        return is_this_host(self.smtp_host or "")


class QuotaSettings(_Section):
    """Limits what one user may cost the others (docs/admin/identity.md)."""

    writes_burst: int = Field(200, ge=1)
    """The changes that one user may make at once through the API and the pages. A script that
    submits chains in a loop stops earlier, at 100 chains of which Slurm has shown no job yet.
    Admins and `polling.pushers` have no such bound."""
    writes_per_minute: int = Field(20, ge=1)
    """The changes that one user may make in a minute after the burst. Further changes get 429, with
    the time to try again."""
    registrations_per_day: int = Field(1000, ge=1)
    """The chains of one user that are registered or found in 24 hours. Further chains are not
    registered and run as plain Slurm chains; Mirage finds them by their mark later."""
    exports: int = Field(4, ge=2)
    """The files of lists written at once. One user has at most half of them, and so have all
    callers without a credential together."""
    export_s: int = Field(900, ge=10, le=86400)
    """The longest time to read a file to its end; then the service cuts the file off; seconds."""
    forecasts_per_minute: int = Field(60, ge=1)
    """The forecasts that one user may look at in a minute. The callers of one address without a
    credential have five times as many together."""
    forecasts_asked: int = Field(16, ge=1)
    """The jobs about which one user may have the twin asked in 30 minutes; all users together:
    64."""


class RetentionSettings(_Section):
    """Sets how long data that grows without end is kept.

    The worker deletes older data each hour.
    """

    audit_days: _Days = 180
    """How long the audit keeps rows about a chain, the owner's requests and the actions. Rows about
    a chain that is not over stay. Runs of learning are kept as long; days."""
    audit_admin_days: _Days = 1095
    """How long the audit keeps all other rows: admins' actions, tokens and sessions, refusals,
    marks on others' jobs; days, at least `audit_days`."""
    empty_chains_days: _Days = 7
    """How long Mirage keeps finished chains of which Slurm has never shown a job; days."""


class Settings(_Section):
    cluster: ClusterSettings = ClusterSettings()
    database: DatabaseSettings = DatabaseSettings()
    service: ServiceSettings = ServiceSettings()
    connections: ConnectionSettings = ConnectionSettings()
    auth: AuthSettings = AuthSettings()
    polling: PollingSettings = PollingSettings()
    provision: ProvisionSettings = ProvisionSettings()
    learn: LearnSettings = LearnSettings()
    slurm: SlurmSettings = SlurmSettings()
    notify: NotifySettings = NotifySettings()
    quota: QuotaSettings = QuotaSettings()
    retention: RetentionSettings = RetentionSettings()
    log_format: Literal["auto", "json", "console"] = "auto"
    """The form of the log. auto: colours on a terminal, JSON otherwise."""

    @property
    def database_url(self) -> str:
        url = os.environ.get("MIRAGE_DATABASE_URL") or self.database.url
        return url or f"sqlite:///{self.service.state_dir / 'mirage.db'}"

    @property
    def models_dir(self) -> Path:
        return get_models_dir(self.provision.models_dir, self.service.state_dir)


def load_settings(path: Path | None) -> Settings:
    """Load the settings of `path`, or of the default file, and of the environment, which overrides
    the file.

    Raises ConfigError, which lists every fault.
    """
    return config_file.validate_config(Settings, read_config(path))


def read_config(path: Path | None) -> RawConfig:
    """Read the settings of the file and of the variables, and where each is set.

    The file is `path`, else the one that MIRAGE_CONFIG names, else /etc/mirage if it exists.
    A variable overrides the file. Raises ConfigError for a file that cannot be read.
    """
    return config_file.read_raw_config(Settings, path or find_site_config(), os.environ)


def load_user_settings(path: Path | None) -> Settings:
    """Return the settings of a user's own service.

    The file is `path`, MIRAGE_CONFIG or ~/.config/mirage/mirage.toml; without a file, the defaults.

    The file cannot change three things: state is in the user's own directory, callers are on this
    host, and the user alone is admin. /etc/mirage and the variables belong to the site.
    """
    settings = config_file.validate_config(Settings, read_user_config(path))
    state_dir = get_user_state_dir()
    user = pwd.getpwuid(os.geteuid()).pw_name
    has_port = "port" in settings.service.model_fields_set
    service = settings.service.model_copy(
        update={
            "host": "127.0.0.1",
            "port": settings.service.port if has_port else 0,
            "state_dir": state_dir,
            "admins": (user,),
            "socket": state_dir / "socket",
        }
    )
    return _UserSettings.model_validate(dict(settings) | {"service": service})


def read_user_config(path: Path | None) -> RawConfig:
    """Read the settings that `load_user_settings` takes, and where each is set."""
    file = path or (find_site_config() if os.environ.get("MIRAGE_CONFIG") else None)
    return config_file.read_raw_config(Settings, file or find_user_config(), {})


def find_user_config() -> Path | None:
    """Return the file of a user's own service; None: there is none."""
    xdg_config_home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(xdg_config_home) if xdg_config_home.startswith("/") else Path.home() / ".config"
    file = base / "mirage" / "mirage.toml"
    return file if file.exists() else None


class _UserSettings(Settings):
    @property
    def database_url(self) -> str:
        return self.database.url or f"sqlite:///{self.service.state_dir / 'mirage.db'}"


def find_site_config() -> Path | None:
    if path := os.environ.get("MIRAGE_CONFIG"):
        return Path(path)
    return CONFIG_PATH if CONFIG_PATH.exists() else None
