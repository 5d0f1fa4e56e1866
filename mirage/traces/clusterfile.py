"""Cluster files (C.toml): a machine and its scheduler's settings under slurm.conf's own names."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import ConfigError, MalformedText
from mirage.sim.types import Params

_MINUTE_S = 60
_LONGEST_NAME = 40
"""Of a ClusterName in Slurm, and so in the database."""
_Reader = Callable[[Any], Any]


def read_cluster_file(path: Path) -> Params:
    """Params of a C.toml; every fault in it at once as ConfigError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"not TOML: {error}"]) from error
    values, faults = _read(document)
    if faults:
        raise ConfigError(str(path), faults)
    return Params(**values)


def _read(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    faults = [f"[{name}]: no such section" for name in document if name not in _SECTIONS]
    for section, keys in _SECTIONS.items():
        table = document.get(section, {})
        if not isinstance(table, dict):
            faults.append(f"{section}: must be a section")
            continue
        for key, value in table.items():
            if key not in keys:
                faults.append(f"[{section}] {key}: no such key")
                continue
            field, reader = keys[key]
            try:
                values[field] = reader(value)
            except (ValueError, MalformedText) as error:
                faults.append(f"[{section}] {key} = {value!r}: {error}")
    faults += _missing(document.get("cluster"))
    known = {f.name for f in fields(Params)}
    return {k: v for k, v in values.items() if k in known}, faults


def _missing(cluster: object) -> list[str]:
    have = cluster if isinstance(cluster, dict) else {}
    return [f"[cluster] {key}: missing" for key in ("name", "nodes") if key not in have]


def _count(least: int) -> _Reader:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"must be a whole number, at least {least}")
        return value

    return read


def _minutes(value: Any) -> int:
    return int(_count(1)(value)) * _MINUTE_S


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError("must be a name of letters, digits and underscores")
    if len(value) > _LONGEST_NAME:
        raise ValueError(f"must be at most {_LONGEST_NAME} characters long")
    return value


def _duration(value: Any) -> int:
    seconds = parse_time_limit(str(value))
    if not seconds or seconds == UNLIMITED:
        raise ValueError('must be a time such as "7-0" or minutes')
    return seconds


def _accrue_always(value: Any) -> bool:
    words = str(value).split(",")
    unknown = [w for w in words if w not in {"ACCRUE_ALWAYS", ""}]
    if unknown:
        raise ValueError(f"not simulated: {', '.join(unknown)}")
    return "ACCRUE_ALWAYS" in words


def _nought(value: Any) -> int:
    if value != 0:
        raise ValueError("not simulated: must be 0")
    return 0


_SECTIONS: dict[str, dict[str, tuple[str, _Reader]]] = {
    "cluster": {
        "name": ("name", _name),
        "nodes": ("nodes", _count(1)),
        "gpus_per_node": ("gpus_per_node", _count(0)),
        "cpus_per_node": ("cpus_per_node", _count(1)),
    },
    "scheduler": {
        "PriorityWeightAge": ("priority_weight_age", _count(0)),
        "PriorityMaxAge": ("priority_max_age_s", _duration),
        "PriorityWeightJobSize": ("priority_weight_job_size", _count(0)),
        "PriorityWeightFairshare": ("", _nought),
        "PriorityFlags": ("accrue_always", _accrue_always),
        "MaxJobsPU": ("max_jobs_pu", _count(0)),
        "bf_interval": ("bf_interval_s", _count(1)),
        "bf_window": ("bf_window_s", _minutes),
        "bf_resolution": ("bf_resolution_s", _count(1)),
        "bf_max_job_test": ("bf_max_job_test", _count(1)),
    },
}
