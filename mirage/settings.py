"""Every knob of the service, with unit and default: one TOML file, checked whole."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mirage.domain.handover import OVERLAP_PRICE
from mirage.errors import ConfigError

DEFAULT_PORT = 6480
CONFIG_PATH = Path("/etc/mirage/mirage.toml")

_Seconds = Annotated[int, Field(gt=0, le=31 * 86400)]
_Hours = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterSettings(_Section):
    name: str = Field("cluster", min_length=1, max_length=40)
    """Slurm's ClusterName; every row of the database carries it."""
    command_timeout_s: _Seconds = 15


class DatabaseSettings(_Section):
    url: str | None = None
    """SQLAlchemy URL; SQLite in `service.state_dir` when unset. MIRAGE_DATABASE_URL goes before."""


class ServiceSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(DEFAULT_PORT, ge=0, le=65535)
    state_dir: Path = Path("/var/lib/mirage")
    admins: tuple[str, ...] = ("root",)
    """Users who may set modes and the kill switch."""


class PollingSettings(_Section):
    """DESIGN section 6: the whole service's budget of questions, seconds between two."""

    queue_s: _Seconds = 60
    nodes_s: _Seconds = 120
    history_s: _Seconds = 300


class ProvisionSettings(_Section):
    policy: str = "average"
    overlap_price: float = Field(OVERLAP_PRICE, ge=0, le=100)
    max_lead_h: _Hours = 24.0
    """A standby is never freed earlier than this before its predecessor's end."""
    min_gain_s: int = Field(60, ge=0)
    """A shorter forecast wait is not worth a move."""
    account_overlap_node_h: _Hours = 500.0
    """Overlap that one account may spend in 24 h, node-hours."""
    cluster_overlap_node_h: _Hours = 5000.0
    demote_after: int = Field(10, ge=1)
    """Hand-overs whose mean absolute forecast error is held against `demote_error_h`."""
    demote_error_h: float = Field(24.0, gt=0)


class Settings(_Section):
    cluster: ClusterSettings = ClusterSettings()
    database: DatabaseSettings = DatabaseSettings()
    service: ServiceSettings = ServiceSettings()
    polling: PollingSettings = PollingSettings()
    provision: ProvisionSettings = ProvisionSettings()
    log_format: Literal["auto", "json", "console"] = "auto"

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
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(chosen), [f"cannot be read: {error}"]) from error
    try:
        return Settings.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(chosen), [f"not TOML: {error}"]) from error
    except ValidationError as error:
        faults = [_fault(text, dict(detail)) for detail in error.errors()]
        raise ConfigError(str(chosen), faults) from error


def _implied_path() -> Path | None:
    if named := os.environ.get("MIRAGE_CONFIG"):
        return Path(named)
    return CONFIG_PATH if CONFIG_PATH.exists() else None


def _fault(text: str, detail: dict[str, Any]) -> str:
    keys = [str(key) for key in detail["loc"]]
    line = _line_of(text, keys)
    where = f"line {line}: " if line else ""
    if detail["type"] == "extra_forbidden":
        return f"{where}unknown key {'.'.join(keys)!r}"
    return f"{where}{'.'.join(keys)} = {detail['input']!r}: {detail['msg']}"


def _line_of(text: str, keys: list[str]) -> int | None:
    """The line that sets keys[-1] in table keys[:-1]; TOML parsers keep no positions."""
    table = ""
    wanted_table, wanted_key = ".".join(keys[:-1]), keys[-1]
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.split("#", 1)[0].strip()
        if bare.startswith("["):
            table = bare.strip("[] ")
            if table == ".".join(keys):
                return number
        elif bare.partition("=")[0].strip() == wanted_key and table == wanted_table:
            return number
    return None
