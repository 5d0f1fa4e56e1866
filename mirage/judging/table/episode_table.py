"""The counterfactual table of many hand-overs, and its file (docs/reference/episodes.md).

Each episode is one pair of jobs injected into a replayed trace. For every decision instant of the
predecessor's run the table has the observation, and the outcome of a release at that instant.
"""

import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mirage import npz_reader
from mirage.domain.arrays import Ints
from mirage.domain.time_units import HOUR_S
from mirage.errors import InputError
from mirage.judging.table.metadata import TableMetadata
from mirage.twin import table_forecasts
from mirage.twin.table_forecasts import TwinForecasts

FORMAT = "mirage-episodes/1"
NONE = -1
"""The entry of a whole-number column that means "no number"."""

_META = "meta.json"
_META_MOST_BYTES = 16 * 2**20
"""The most bytes of the metadata, which contain the whole cluster file."""
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of each member, so that the same table always gives the same bytes."""

TableColumn = NDArray[Any]

_KINDS: dict[str, tuple[type[np.generic], tuple[str, ...]]] = {
    "start_point": (np.int64, ("episodes",)),
    "predecessor_start": (np.int64, ("episodes",)),
    "predecessor_end": (np.int64, ("episodes",)),
    "instant_s": (np.int32, ("instants",)),
    "outcome_s": (np.int32, ("episodes", "instants")),
    "outcome_aged_s": (np.int32, ("episodes", "instants")),
    "rivals": (np.int32, ("episodes", "instants")),
    "rivals_planned_s": (np.int32, ("episodes", "instants")),
    "free_nodes": (np.int32, ("episodes", "instants")),
    "observations": (np.float32, ("episodes", "instants", "features")),
    "started_first": (np.int64, ("bounds",)),
    "started_at": (np.int64, ("started",)),
    "started_wait_s": (np.int32, ("started",)),
    "started_nodes": (np.int32, ("started",)),
    "started_limit_s": (np.int32, ("started",)),
}
"""The type and the axes of each member. docs/reference/episodes.md explains the members."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One hand-over: a view of its rows in the table."""

    start_point: int
    predecessor_start: int
    predecessor_end: int
    instants: Ints
    """[T], epoch seconds; the last is the predecessor's end."""
    observations: NDArray[np.float32]
    """[T, F]: known at each instant."""
    outcome_h: NDArray[np.float64]
    """[T], signed hours: start of the successor - end of the predecessor, for a release at each
    instant."""
    outcome_aged_h: NDArray[np.float64]
    """[T]: as `outcome_h`, if the successor earns age from the predecessor's start
    (ACCRUE_ALWAYS, or pinned)."""


@dataclass(frozen=True, slots=True)
class StartedJobs:
    """Jobs that had started before an episode's end, oldest first; columns of equal length."""

    at: Ints
    wait_s: Ints
    nodes: Ints
    limit_s: Ints


class EpisodeTable:
    """E episodes of T instants, F features each. Columns of a loaded one are read when used."""

    def __init__(self, metadata: TableMetadata, columns: Mapping[str, TableColumn]) -> None:
        """`columns`: by the names of `_KINDS`. Raises InputError if their shapes do not fit
        together."""
        self.metadata = metadata
        self._columns = columns
        self.twins: TwinForecasts | None = None
        """The twin's forecasts; None if the twin was not asked."""
        if not isinstance(columns, _Members):
            _check_columns(columns, _compute_sizes(metadata, columns))

    def __len__(self) -> int:
        return len(self.start_point)

    def __iter__(self) -> Iterator[Episode]:
        return (self.get_episode(i) for i in range(len(self)))

    @property
    def start_point(self) -> Ints:
        """[E]: submission of the predecessor, epoch seconds, ascending."""
        return self._columns["start_point"]

    @property
    def predecessor_start(self) -> Ints:
        """[E], epoch seconds."""
        return self._columns["predecessor_start"]

    @property
    def predecessor_end(self) -> Ints:
        """[E], epoch seconds: start + time limit."""
        return self._columns["predecessor_end"]

    @property
    def instant_s(self) -> NDArray[np.int32]:
        """[T]: seconds after the predecessor's start, from 0 to its time limit."""
        return self._columns["instant_s"]

    @property
    def instants(self) -> Ints:
        """[E, T], epoch seconds."""
        return self.predecessor_start[:, None] + self.instant_s[None, :].astype(np.int64)

    @property
    def outcome_s(self) -> NDArray[np.int32]:
        """[E, T], seconds: successor's start - predecessor's end, were it eligible then."""
        return self._columns["outcome_s"]

    @property
    def outcome_aged_s(self) -> NDArray[np.int32]:
        """[E, T]: as `outcome_s`, the successor's age counted from the predecessor's start."""
        return self._columns["outcome_aged_s"]

    @property
    def outcome_h(self) -> NDArray[np.float64]:
        """[E, T]: `outcome_s` in hours."""
        return self.outcome_s / HOUR_S

    @property
    def outcome_aged_h(self) -> NDArray[np.float64]:
        """[E, T]: `outcome_aged_s` in hours."""
        return self.outcome_aged_s / HOUR_S

    @property
    def observations(self) -> NDArray[np.float32]:
        """[E, T, F], in the order of `metadata.features`."""
        return self._columns["observations"]

    @property
    def rivals(self) -> NDArray[np.int32]:
        """[E, T]: eligible jobs in line, none wider than the successor."""
        return self._columns["rivals"]

    @property
    def rivals_planned_s(self) -> NDArray[np.int32]:
        """[E, T]: latest planned start among the rivals, seconds from the instant, or NONE."""
        return self._columns["rivals_planned_s"]

    @property
    def free_nodes(self) -> NDArray[np.int32]:
        """[E, T]: usable nodes on which nothing runs."""
        return self._columns["free_nodes"]

    def get_started_jobs(self, i: int) -> StartedJobs:
        """Return the jobs that started in the i-th episode's world, from some time before its
        predecessor's start."""
        first = self._columns["started_first"]
        rows = slice(int(first[i]), int(first[i + 1]))
        names = ("started_at", "started_wait_s", "started_nodes", "started_limit_s")
        return StartedJobs(*(self._columns[n][rows].astype(np.int64) for n in names))

    def get_episode(self, i: int) -> Episode:
        """Return the i-th hand-over."""
        return Episode(
            start_point=int(self.start_point[i]),
            predecessor_start=int(self.predecessor_start[i]),
            predecessor_end=int(self.predecessor_end[i]),
            instants=self.predecessor_start[i] + self.instant_s.astype(np.int64),
            observations=self.observations[i],
            outcome_h=self.outcome_s[i] / HOUR_S,
            outcome_aged_h=self.outcome_aged_s[i] / HOUR_S,
        )

    def select_episodes(self, rows: Ints, metadata: TableMetadata | None = None) -> "EpisodeTable":
        """Return a table of some of the episodes, by their numbers, ascending.

        It is described as this one, or by `metadata`. Neighbouring episodes are not copied.
        """
        is_run = len(rows) > 0 and int(rows[-1] - rows[0]) + 1 == len(rows)
        selection = slice(int(rows[0]), int(rows[-1]) + 1) if is_run else rows
        first = self._columns["started_first"]
        counts = np.diff(first)[rows]
        started = [np.arange(first[i], first[i + 1]) for i in rows]
        of_started = np.concatenate([np.zeros(0, dtype=np.int64), *started])
        columns: dict[str, TableColumn] = {}
        for name, (_, axes) in _KINDS.items():
            column = self._columns[name]
            columns[name] = column[selection] if axes[0] == "episodes" else column
            if axes[0] == "started":
                columns[name] = column[of_started]
        columns["started_first"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        selected = EpisodeTable(metadata or self.metadata, columns)
        if self.twins is not None:
            selected.twins = replace(self.twins.select_episodes(rows), pair=selected.metadata.pair)
        return selected

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        part = path.with_name(f".{path.name}.part")
        try:
            with zipfile.ZipFile(part, "w") as archive:
                _write_member(archive, _META, json.dumps(self._build_metadata(), indent=1).encode())
                for name in _KINDS:
                    _write_array(archive, name, self._columns[name])
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> "EpisodeTable":
        """Load the table of a file. Raises InputError if the file is no table, is damaged, or
        has another format."""
        members = _Members(path)
        table = cls(members.metadata, members)
        table.twins = _load_twins(path, table)
        return table

    def _build_metadata(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "sizes": _compute_sizes(self.metadata, self._columns),
            **asdict(self.metadata),
        }


def join_tables(
    tables: Sequence[EpisodeTable], described: TableMetadata | None = None
) -> EpisodeTable:
    """Join tables that were made with the same settings, in the order given.

    The joined table is described as the first one, or by `described`.
    """
    first = described or tables[0].metadata
    left_out = sum(t.metadata.left_out for t in tables)
    beyond = sum(t.metadata.beyond_trace for t in tables)
    metadata = TableMetadata(
        **{**_to_shallow_dict(first), "left_out": left_out, "beyond_trace": beyond}
    )
    columns: dict[str, TableColumn] = {"instant_s": tables[0].instant_s}
    for name, (_, axes) in _KINDS.items():
        if axes[0] in ("episodes", "started"):
            columns[name] = np.concatenate([t._columns[name] for t in tables])  # noqa: SLF001 - own class
    counts = [np.diff(t._columns["started_first"]) for t in tables]  # noqa: SLF001 - own class
    columns["started_first"] = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return EpisodeTable(metadata, columns)


def _load_twins(path: Path, table: EpisodeTable) -> TwinForecasts | None:
    """Load the twin's forecasts from the file beside the table. None if there is no such file,
    or if it belongs to another table."""
    file = table_forecasts.get_twin_path(path)
    if not file.exists():
        return None
    twins = TwinForecasts.load(file)
    is_same_pair = twins.pair == table.metadata.pair
    has_same_points = is_same_pair and np.array_equal(twins.start_point, table.start_point)
    return twins if has_same_points else None


class _Members(Mapping[str, TableColumn]):
    """The members of a file, each read when first asked for. Pickle is never loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: dict[str, TableColumn] = {}
        meta = self._read_metadata()
        self._sizes: Mapping[str, Any] = meta.pop("sizes", {})
        self.metadata = _parse_metadata(path, meta)

    def __getitem__(self, name: str) -> TableColumn:
        if name not in self._columns:
            column = self._read_array(name)
            _check_column(name, column, self._sizes, f"{self._path} is damaged: ")
            self._columns[name] = column
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_KINDS)

    def __len__(self) -> int:
        return len(_KINDS)

    def _read_metadata(self) -> dict[str, Any]:
        try:
            with npz_reader.open_archive(self._path) as archive:
                meta = json.loads(npz_reader.read_member(archive, _META, _META_MOST_BYTES))
        except FileNotFoundError:
            raise InputError(f"{self._path}: there is no such file") from None
        except InputError:
            raise
        # zlib has errors of its own, and JSON may be nested too deeply. Whatever is in the file,
        # it is the user's input that is faulty, not this program.
        except Exception as error:
            raise InputError(f"{self._path} is no episode table, or it is damaged") from error
        if not isinstance(meta, dict) or meta.pop("format", None) != FORMAT:
            raise InputError(
                f"{self._path} has another format than {FORMAT}: make the table again with "
                "`mirage episodes`"
            )
        return meta

    def _read_array(self, name: str) -> TableColumn:
        try:
            with npz_reader.open_archive(self._path) as archive:
                return npz_reader.read_array(archive, name)
        except InputError:
            raise
        # zlib and numpy have errors of their own: a damaged file is faulty input.
        except Exception as error:
            raise InputError(
                f"{self._path} is damaged: its column {name} cannot be read"
            ) from error


def _parse_metadata(path: Path, meta: dict[str, Any]) -> TableMetadata:
    field_names = {f.name for f in fields(TableMetadata)}
    try:
        values = {k: v for k, v in meta.items() if k in field_names}
        values["features"] = tuple(values["features"])
        # Tables older than this setting come from replays in which cancelled jobs ran.
        values["cluster"].setdefault("cancelled_jobs_run", True)
        return TableMetadata(**values)
    except (AttributeError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged: its {_META} is not complete") from error


def _to_shallow_dict(metadata: TableMetadata) -> dict[str, Any]:
    return {f.name: getattr(metadata, f.name) for f in fields(TableMetadata)}


def _compute_sizes(metadata: TableMetadata, columns: Mapping[str, TableColumn]) -> dict[str, int]:
    episodes = len(columns["start_point"])
    return {
        "episodes": episodes,
        "instants": len(columns["instant_s"]),
        "features": len(metadata.features),
        "bounds": episodes + 1,
        "started": len(columns["started_at"]),
    }


def _check_columns(columns: Mapping[str, TableColumn], sizes: dict[str, int]) -> None:
    for name in _KINDS:
        if name not in columns:
            raise InputError(f"an episode table needs the column {name}")
        _check_column(name, columns[name], sizes, "")


def _check_column(name: str, column: TableColumn, sizes: Mapping[str, int], prefix: str) -> None:
    """Raise InputError, with a message that begins with `prefix`, for another type or shape."""
    dtype, axes = _KINDS[name]
    shape = tuple(sizes.get(axis, NONE) for axis in axes)
    if column.dtype != dtype or column.shape != shape:
        raise InputError(
            f"{prefix}{name} is {column.dtype}{list(column.shape)}, "
            f"not {np.dtype(dtype)}{list(shape)}"
        )


def _write_array(archive: zipfile.ZipFile, name: str, column: TableColumn) -> None:
    with archive.open(_build_zip_info(f"{name}.npy"), "w", force_zip64=True) as member:
        _write_npy(member, np.ascontiguousarray(column))  # type: ignore[arg-type]


def _write_npy(member: BinaryIO, column: TableColumn) -> None:
    np.lib.format.write_array(member, column, allow_pickle=False)


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(_build_zip_info(name), data)


def _build_zip_info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_ZIP_EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info
