"""Every knob of the service, with unit and default: one TOML file, checked whole."""

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from mirage.errors import ConfigError

DEFAULT_PORT = 6480
CONFIG_PATH = Path("/etc/mirage/mirage.toml")

PlainName = Literal[
    "reactive",
    "average",
    "quantile",
    "slurm-estimate",
    "fixed-lead",
    "at-once",
    "twin",
    "pin",
    "pin-then-free",
    "auto",
]
"""All but models of `policy.registry`, spelled out so that reading settings imports no policies."""

_MODEL = re.compile(r"models(/[A-Za-z0-9_][A-Za-z0-9._-]*){1,2}")
_POLICIES = (*get_args(PlainName), "models/NAME", "models/NAME/VERSION")


def _policy_name(name: str) -> str:
    """Whether a model can be used is seen where it is loaded (`bootstrap.rules`)."""
    if name not in get_args(PlainName) and _MODEL.fullmatch(name) is None:
        raise ValueError(f"there are {', '.join(_POLICIES)}")
    return name


PolicyName = Annotated[str, AfterValidator(_policy_name), WithJsonSchema({"enum": _POLICIES})]

_REST_URL = r"^(unix:/\S+|https?://[^\s/@]+/?)$"

_Seconds = Annotated[int, Field(gt=0, le=31 * 86400)]
_Hours = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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
    def _is_whole(self) -> Self:
        if self.transport == "rest" and self.rest_url is None:
            raise ValueError('transport = "rest" needs rest_url')
        return self


class DatabaseSettings(_Section):
    url: str | None = None
    """SQLAlchemy URL; SQLite in `service.state_dir` when unset. MIRAGE_DATABASE_URL goes before."""


class ServiceSettings(_Section):
    host: str = "127.0.0.1"
    """The address that the API listens on. Whoever reaches it may read; writes need MUNGE."""
    port: int = Field(DEFAULT_PORT, ge=0, le=65535)
    """0: any free one; the log says which."""
    state_dir: Path = Path("/var/lib/mirage")
    """The SQLite database, and the kill switch: a file named `shadow` stops all acting."""
    admins: tuple[str, ...] = ("root",)
    """Users who may set modes and the kill switch, read the audit, and act on any chain."""


class PollingSettings(_Section):
    """How often Slurm is asked: the whole service's budget of questions (DESIGN section 6)."""

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


class ProvisionSettings(_Section):
    policy: PolicyName = "auto"
    """For chains that name none."""
    models_dir: Path | None = None
    """Holds NAME/VERSION of models; unset: `models` where it starts, or those that came along."""
    max_lead_h: _Hours = 24.0
    """A standby is never freed earlier than this before its predecessor's end; hours."""
    min_gain_s: int = Field(60, ge=0)
    """A shorter forecast wait is not worth a move; seconds."""
    account_overlap_node_h: _Hours = 500.0
    """Overlap that one account may spend in 24 h; node-hours."""
    cluster_overlap_node_h: _Hours = 5000.0
    """Overlap that all may spend in 24 h; node-hours."""
    allow_pin: bool = False
    """Whether a standby may stand on its predecessor's own nodes (pinned)."""
    max_touches: int = Field(6, ge=1)
    """Moves that one hand-over may cost; a standby is not pinned where the last one, which lets it
    off its nodes, would exceed it."""
    demote_after: int = Field(10, ge=1)
    """Hand-overs whose mean absolute forecast error is held against `demote_error_h`."""
    demote_error_h: float = Field(12.0, gt=0)
    """A larger mean error turns mode act into shadow; hours."""


class Settings(_Section):
    cluster: ClusterSettings = ClusterSettings()
    database: DatabaseSettings = DatabaseSettings()
    service: ServiceSettings = ServiceSettings()
    polling: PollingSettings = PollingSettings()
    provision: ProvisionSettings = ProvisionSettings()
    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: colours on a terminal, JSON otherwise."""

    @property
    def database_url(self) -> str:
        given = os.environ.get("MIRAGE_DATABASE_URL") or self.database.url
        return given or f"sqlite:///{self.service.state_dir / 'mirage.db'}"


def load(path: Path | None) -> Settings:
    """The settings of `path`; without one, of MIRAGE_CONFIG or /etc/mirage where that exists.

    Raises ConfigError with every fault of the file at once.
    """
    chosen = path or _implied_path()
    if chosen is None:
        return Settings()
    try:
        text = chosen.read_text(encoding="utf-8")
        return Settings.model_validate(tomllib.loads(text))
    except OSError as error:
        raise ConfigError(str(chosen), [f"cannot be read: {error.strerror}"]) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(chosen), [f"not TOML: {error}"]) from error
    except ValidationError as error:
        raise ConfigError(str(chosen), _faults(text, error)) from error


def _implied_path() -> Path | None:
    if named := os.environ.get("MIRAGE_CONFIG"):
        return Path(named)
    return CONFIG_PATH if CONFIG_PATH.exists() else None


def _faults(text: str, error: ValidationError) -> list[str]:
    """In the order of the file's lines."""
    found = []
    for detail in error.errors():
        keys = [str(key) for key in detail["loc"]]
        found.append((_line_of(text, keys) or 0, keys, dict(detail)))
    found.sort(key=lambda fault: fault[0])
    return [_fault(line, keys, detail) for line, keys, detail in found]


def _fault(line: int, keys: list[str], detail: dict[str, Any]) -> str:
    name = ".".join(keys)
    where = f"line {line}: " if line else ""
    if detail["type"] == "extra_forbidden":
        return f"{where}unknown key {name!r}"
    if detail["type"] == "model_type":
        return f"{where}{name} = {detail['input']!r}: {name} is a table, [{name}]"
    return f"{where}{name} = {detail['input']!r}: {detail['msg'].removeprefix('Value error, ')}"


def _line_of(text: str, keys: list[str]) -> int | None:
    """The line that sets the key, or what holds it; TOML parsers keep no positions."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.split("#", 1)[0].strip()
        if bare.startswith("["):
            table = bare.strip("[] ")
            lines.setdefault(table, number)
        elif "=" in bare:
            key = bare.partition("=")[0].strip()
            lines.setdefault(f"{table}.{key}" if table else key, number)
    outward = (".".join(keys[:end]) for end in range(len(keys), 0, -1))
    return next((lines[name] for name in outward if name in lines), None)
