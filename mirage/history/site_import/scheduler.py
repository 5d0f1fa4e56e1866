"""Converts slurm.conf's scheduling settings to the simulator's, with notes on what it cannot do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import MalformedText
from mirage.history.site_import.notes import SiteNote, is_preempted
from mirage.simulator.slurm_release import describe_planner, find_release, is_unchecked
from mirage.simulator.types import OFF, SelectType
from mirage.slurm.text.releases import parse_version

ParamFields = dict[str, Any]
"""Fields of Params, by name."""

_NUMBER = re.compile(r"[+-]?\d{1,15}(?!\d)", re.ASCII)
_NEVER_DECAYS_S = 3650 * 86400
_FLAGS_IN_FORCE = frozenset(
    {"ACCRUE_ALWAYS", "FAIR_TREE", "CALCULATE_RUNNING", "NO_NORMAL_ASSOC", "NO_NORMAL_TRES"}
)

_WEIGHTS = {
    "PriorityWeightAge": "priority_weight_age",
    "PriorityWeightJobSize": "priority_weight_job_size",
    "PriorityWeightPartition": "priority_weight_partition",
    "PriorityWeightQOS": "priority_weight_qos",
    "PriorityWeightFairShare": "priority_weight_fairshare",
}
_PERIODS = {
    "PriorityMaxAge": "priority_max_age_s",
    "PriorityDecayHalfLife": "priority_decay_half_life_s",
    "PriorityCalcPeriod": "priority_calc_period_s",
}
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A key of SchedulerParameters as slurmctld 22.05 reads it: for a number out of range slurmctld
    takes the default."""

    field: str
    default: int
    least: int
    most: int = _LARGEST
    unit: int = 1
    may_be_off: bool = False
    """-1 turns that scheduler off."""

    @property
    def values(self) -> str:
        return f"{'-1, ' * self.may_be_off}{self.least} to {self.most}"


_PARAMETERS = {
    "sched_interval": _Parameter("sched_interval_s", 60, 0, may_be_off=True),
    "default_queue_depth": _Parameter("default_queue_depth", 100, 1),
    "bf_interval": _Parameter("bf_interval_s", 30, 1, 10800, may_be_off=True),
    "bf_window": _Parameter("bf_window_s", 1440, 1, 43200, MINUTE_S),
    "bf_resolution": _Parameter("bf_resolution_s", 60, 1, 3600),
    "bf_max_job_test": _Parameter("bf_max_job_test", 500, 1, 1_000_000),
    "bf_max_job_user": _Parameter("bf_max_job_user", 0, 0),
}

_UNSIMULATED_SETTINGS = {
    "PreemptType": ({"preempt/none"}, "preemption"),
    "TopologyPlugin": ({"topology/none", "topology/default", "topology/flat"}, "topology"),
    "Licenses": (set[str](), "licences"),
    "PriorityWeightAssoc": ({"0"}, "the associations' own priority"),
    "PriorityWeightTRES": (set[str](), "priority by TRES"),
    "PrioritySiteFactorPlugin": ({"site_factor/none"}, "the site's priority factor"),
    "PriorityUsageResetPeriod": ({"NONE"}, "resets of usage"),
    "BurstBufferType": ({"burst_buffer/none"}, "burst buffers"),
    "CompleteWait": ({"0 sec"}, "waiting for jobs that complete"),
    "SuspendTime": ({"INFINITE", "-1", "NONE"}, "nodes that are powered down"),
    "JobRequeue": ({"1"}, "jobs that are not requeued by default"),
    "FederationParameters": (set[str](), "federation"),
}
"""By key: the values with which the setting changes nothing, and the feature that is not
simulated."""


def convert_scheduler(config: Mapping[str, str]) -> tuple[ParamFields, list[str]]:
    """Convert `scontrol show config` to fields of `Params`, with a sentence on each unsimulated
    setting."""
    notes: list[str] = []
    fields: ParamFields = {"select_type": _convert_select_type(config, notes)}
    fields |= _convert_version(config, notes)
    fields |= _convert_priority(config, notes)
    fields |= _convert_parameters(config, notes)
    fields |= _convert_over_time(config, notes)
    for key, (neutral, feature) in _UNSIMULATED_SETTINGS.items():
        value = config.get(key, "")
        if value and value not in neutral:
            sentence = f"Not simulated: {feature} ({key} = {value})."
            notes.append(SiteNote(sentence, is_preempted) if key == "PreemptType" else sentence)
    return fields, notes


def _convert_version(config: Mapping[str, str], notes: list[str]) -> ParamFields:
    """Return the release whose backfill the simulator uses."""
    text = config.get("SLURM_VERSION", "")
    version = text if parse_version(text) is not None else ""
    if text and not version:
        notes.append(
            f"SLURM_VERSION = {text}: not a version of Slurm that Mirage can read, and so not in "
            f"the cluster file; planned as Slurm {find_release(version)}."
        )
    elif is_unchecked(version):
        notes.append(f"SLURM_VERSION = {text or 'not text'}: {describe_planner(version)}.")
    return {"slurm_version": version}


def _convert_over_time(config: Mapping[str, str], notes: list[str]) -> ParamFields:
    minutes, _, unit = config.get("OverTimeLimit", "0 min").partition(" ")
    if minutes.isdecimal() and unit == "min":
        return {"over_time_limit_s": int(minutes) * MINUTE_S}
    notes.append(f"OverTimeLimit = {minutes}: not simulated, jobs end at their limits.")
    return {}


def is_memory_counted(config: Mapping[str, str]) -> bool:
    """Return whether Slurm gives memory to jobs at all (SelectTypeParameters=CR_..._Memory)."""
    return "MEMORY" in config.get("SelectTypeParameters", "").upper()


def has_whole_cores(config: Mapping[str, str]) -> bool:
    """Return whether jobs get cores, not threads (SelectTypeParameters=CR_Core, CR_Socket...)."""
    words = config.get("SelectTypeParameters", "").upper().replace(",", "_").split("_")
    return bool({"CORE", "SOCKET"} & set(words))


def _convert_select_type(config: Mapping[str, str], notes: list[str]) -> SelectType:
    text = config.get("SelectType", "")
    try:
        return SelectType(text)
    except ValueError:
        notes.append(f"SelectType = {text or 'not told'}: taken as select/cons_tres.")
        return SelectType.CONS_TRES


def _convert_priority(config: Mapping[str, str], notes: list[str]) -> ParamFields:
    kind = config.get("PriorityType", "")
    fields: ParamFields = {
        field: _parse_whole_number(config, key, notes) for key, field in _WEIGHTS.items()
    }
    for key, field in _PERIODS.items():
        seconds = _parse_seconds(config.get(key, ""))
        if seconds:
            fields[field] = seconds
        elif key == "PriorityDecayHalfLife":
            fields[field] = _NEVER_DECAYS_S
            notes.append("PriorityDecayHalfLife is 0 or not told: a half-life of ten years.")
        else:
            notes.append(f"{key} is not told: the simulator's default.")
    flags = set(config.get("PriorityFlags", "").split(",")) - {"", "NONE"}
    fields["accrue_always"] = "ACCRUE_ALWAYS" in flags
    fields["priority_favor_small"] = config.get("PriorityFavorSmall", "").lower() == "yes"
    unknown_flags = sorted(flags - _FLAGS_IN_FORCE)
    if unknown_flags:
        notes.append(f"Not simulated: PriorityFlags {', '.join(unknown_flags)}.")
    if not kind.endswith("/multifactor"):
        notes.append(f"PriorityType = {kind or 'not told'}: in order of submission, no weights.")
        fields |= dict.fromkeys(_WEIGHTS.values(), 0)
    elif not config.get("AccountingStorageType", "").endswith("/slurmdbd"):
        notes.append("Without slurmdbd Slurm ignores age and fair share: their weights are 0.")
        fields |= {"priority_weight_age": 0, "priority_weight_fairshare": 0}
    return fields


def _convert_parameters(config: Mapping[str, str], notes: list[str]) -> ParamFields:
    values: dict[str, str] = {}
    for term in config.get("SchedulerParameters", "").split(","):
        values.setdefault(*_parse_parameter(term))  # Slurm takes the first
    fields: ParamFields = {}
    for key, parameter in _PARAMETERS.items():
        text = values.pop(key, str(parameter.default))
        fields[parameter.field] = _convert_value(key, text, parameter, notes)
    if values.pop("bf_continue", None) is None:
        notes.append(
            "bf_continue is not set: Slurm gives up a backfill pass that it yielded in, the "
            "simulator never; where passes are long, it plans more than Slurm does."
        )
    other_settings = [
        key if not value else f"{key}={value}" for key, value in values.items() if key
    ]
    if other_settings:
        notes.append(f"Not simulated: SchedulerParameters {', '.join(other_settings)}.")
    kind = config.get("SchedulerType", "sched/backfill")
    if kind == "sched/builtin":
        fields["bf_interval_s"] = OFF
        notes.append("SchedulerType = sched/builtin: no backfill (bf_interval = -1).")
    elif kind != "sched/backfill":
        notes.append(f"SchedulerType = {kind}: backfilled nevertheless.")
    return fields


def _convert_value(key: str, text: str, parameter: _Parameter, notes: list[str]) -> int:
    match = _NUMBER.match(text)
    number = int(match[0]) if match else parameter.least - 1
    if parameter.may_be_off and number == OFF:
        return OFF
    if not parameter.least <= number <= parameter.most:
        notes.append(
            f"SchedulerParameters: Slurm takes no {key}={text} (it takes {parameter.values}), "
            f"but its default: {parameter.default}."
        )
        number = parameter.default
    if number == 0 and parameter.may_be_off:
        notes.append(f"{key}=0: Slurm looks each second, and so does the simulator.")
        number = 1
    return number * parameter.unit


def _parse_parameter(term: str) -> tuple[str, str]:
    key, _, value = term.strip().partition("=")
    return key.lower(), value


def _parse_whole_number(config: Mapping[str, str], key: str, notes: list[str]) -> int:
    # Releases differ in the case of FairShare.
    text = {k.lower(): v for k, v in config.items()}.get(key.lower(), "")
    if text.isascii() and text.isdigit():
        return int(text)
    notes.append(f"{key} is not told: 0.")
    return 0


def _parse_seconds(text: str) -> int:
    """Return seconds; 0: the text is missing, cannot be parsed, or is no limit."""
    try:
        seconds = parse_time_limit(text)
    except MalformedText:
        return 0
    return 0 if seconds is None or seconds == UNLIMITED else seconds
