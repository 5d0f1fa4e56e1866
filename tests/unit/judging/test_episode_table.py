"""The file of an episode table: what is saved is loaded, and nothing else is."""

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mirage import npz_reader
from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable, join_tables
from mirage.twin.table_forecasts import TwinForecasts
from tests.support.episodes.tables import MONDAY, table

THREE = [[-0.5, 0.25, 1.0], [0.0, 0.0, 3.0]]


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "E.npz"
    observations = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    table(THREE, waits_s=(5, 7), observations=observations).save(path)
    return path


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    loaded = EpisodeTable.load(saved(tmp_path))
    assert len(loaded) == 2
    assert loaded.outcome_h.tolist() == THREE
    assert loaded.outcome_aged_h.tolist() == THREE
    second = loaded.get_episode(1)
    assert second.start_point == second.predecessor_start == MONDAY + 4 * 3600
    assert second.instants.tolist() == [second.start_point + s for s in (0, 600, 1200)]
    assert second.predecessor_end == second.instants[-1]
    assert second.observations.tolist() == [[6, 7], [8, 9], [10, 11]]
    assert loaded.get_started_jobs(1).wait_s.tolist() == [5, 7]
    assert loaded.metadata.features == ("time_left_s", "index")


def test_some_episodes_are_those_of_the_whole_table() -> None:
    outcomes_h = [[-0.5, 0.25, k] for k in (0.0, 1.0, 2.0, 3.0)]
    whole = table(
        outcomes_h,
        waits_s=(5, 7),
        started_wait_s=np.arange(8, dtype=np.int32),
        observations=np.arange(24, dtype=np.float32).reshape(4, 3, 2),
    )
    points = whole.start_point
    whole.twins = TwinForecasts("pair", points, 1, np.arange(4, dtype=np.int32)[:, None, None])
    some = whole.select_episodes(np.array([1, 3]))
    assert len(some) == 2
    for place, number in enumerate((1, 3)):
        one, other = some.get_episode(place), whole.get_episode(number)
        assert one.start_point == other.start_point
        assert one.outcome_h.tolist() == outcomes_h[number]
        assert one.observations.tolist() == other.observations.tolist()
        waits_s = some.get_started_jobs(place).wait_s.tolist()
        assert waits_s == [2 * number, 2 * number + 1]
    assert some.twins is not None
    assert some.twins.start_point.tolist() == some.start_point.tolist()
    assert some.twins.quantile_s.ravel().tolist() == [1, 3]
    assert len(whole.select_episodes(np.zeros(0, dtype=np.int64))) == 0


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    path = saved(tmp_path)
    again = tmp_path / "again.npz"
    EpisodeTable.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_numpy_reads_the_members_without_pickle(tmp_path: Path) -> None:
    with np.load(saved(tmp_path), allow_pickle=False) as members:
        assert members["outcome_s"].tolist() == [[-1800, 900, 3600], [0, 0, 10800]]
        assert json.loads(members["meta.json"])["nodes"] == 1


def test_a_member_is_read_only_when_it_is_asked_for(tmp_path: Path) -> None:
    path = saved(tmp_path)
    damaged = rewritten(path, "observations.npy", b"not an array")
    loaded = EpisodeTable.load(damaged)
    assert loaded.outcome_h.tolist() == THREE
    with pytest.raises(InputError, match="observations cannot be read"):
        _ = loaded.observations


def rewritten(path: Path, name: str, data: bytes | None) -> Path:
    """The file with one member other, or without it."""
    other = path.with_name("other.npz")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            content = data if member == name else old.read(member)
            if content is not None:
                new.writestr(member, content)
    return other


def test_an_object_array_is_not_unpickled(tmp_path: Path) -> None:
    evil = tmp_path / "evil.npy"
    np.save(evil, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    damaged = rewritten(saved(tmp_path), "outcome_s.npy", evil.read_bytes())
    with pytest.raises(InputError, match="outcome_s cannot be read"):
        _ = EpisodeTable.load(damaged).outcome_s


def test_a_file_that_unpacks_to_more_than_there_is_room_for_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros: a thousand times as long as the file. Its description fits to it."""
    wide = 2_000_000
    path = rewritten(saved(tmp_path), "observations.npy", zeros((2, 3, wide)))
    monkeypatch.setattr(npz_reader, "MOST_BYTES", 16 * 2**20)
    with pytest.raises(InputError, match="bytes when unpacked, more than the limit of 16777216"):
        EpisodeTable.load(with_meta(path, features=["x"] * wide))


def test_a_description_without_end_is_not_unpacked(tmp_path: Path) -> None:
    damaged = rewritten(saved(tmp_path), "meta.json", b'{"a": "' + b" " * 2**25 + b'"}')
    with peak_below(2**24), pytest.raises(InputError, match="no episode table, or it is damaged"):
        EpisodeTable.load(damaged)
    deep = rewritten(saved(tmp_path), "meta.json", b"[" * 100_000)
    with pytest.raises(InputError, match="no episode table, or it is damaged"):
        EpisodeTable.load(deep)


def test_a_member_that_says_less_than_it_holds_is_read_as_far_as_it_says(tmp_path: Path) -> None:
    """The array begins with its shape, of 48 MB; the archive says that it is 192 bytes long."""
    path = rewritten(saved(tmp_path), "outcome_s.npy", zeros((2, 6_000_000)))
    lying = tmp_path / "lying.npz"
    lying.write_bytes(path.read_bytes().replace(*sizes(path, "outcome_s.npy", 192)))
    with peak_below(2**24), pytest.raises(InputError, match="outcome_s cannot be read"):
        _ = EpisodeTable.load(lying).outcome_s


def test_no_memory_is_taken_for_an_array_that_is_not_there(tmp_path: Path) -> None:
    """Its shape alone says 48 MB."""
    head = zeros((2, 6_000_000))[:128]
    path = rewritten(saved(tmp_path), "outcome_s.npy", head + bytes(64))
    with peak_below(2**24), pytest.raises(InputError, match="outcome_s cannot be read"):
        _ = EpisodeTable.load(path).outcome_s


def zeros(shape: tuple[int, ...]) -> bytes:
    """A member of zeros, as numpy writes it."""
    file = io.BytesIO()
    np.save(file, np.zeros(shape, dtype=np.int32 if len(shape) == 2 else np.float32))
    return file.getvalue()


def with_meta(path: Path, **more: object) -> Path:
    """The file with its description changed."""
    with zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json")) | more
    changed = path.with_name("changed.npz")
    path.rename(changed)
    return rewritten(changed, "meta.json", json.dumps(meta).encode())


def sizes(path: Path, name: str, other: int) -> tuple[bytes, bytes]:
    """How the archive's directory says the size of a member, and another size."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
    said = struct.pack("<LLL", member.CRC, member.compress_size, member.file_size)
    return said, said[:8] + struct.pack("<L", other)


@contextmanager
def peak_below(size: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def test_a_member_of_another_shape_is_told(tmp_path: Path) -> None:
    short = tmp_path / "short.npy"
    np.save(short, np.zeros((2, 2), dtype=np.int32))
    damaged = rewritten(saved(tmp_path), "outcome_s.npy", short.read_bytes())
    with pytest.raises(InputError, match=r"outcome_s is int32\[2, 2\], not int32\[2, 3\]"):
        _ = EpisodeTable.load(damaged).outcome_s


@pytest.mark.parametrize("name", ["outcome_s.npy", "meta.json"])
def test_a_missing_member_is_told(tmp_path: Path, name: str) -> None:
    damaged = rewritten(saved(tmp_path), name, None)
    with pytest.raises(InputError, match=r"other\.npz"):
        _ = EpisodeTable.load(damaged).outcome_s


@pytest.mark.parametrize("size", [0, 3, 700])
def test_a_cut_off_file_is_told(tmp_path: Path, size: int) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match="no episode table, or it is damaged"):
        EpisodeTable.load(path)


def test_a_foreign_npz_is_told(tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    np.savez(path, x=np.arange(3))
    with pytest.raises(InputError, match="no episode table"):
        EpisodeTable.load(path)


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        (b'{"format": "mirage-episodes/0"}', "has another format than"),
        (b"[1]", "has another format than"),
        (b'{"format": "mirage-episodes/1", "sizes": {}}', "not complete"),
        (b'{"format": "mirage-episodes/1"}', "not complete"),
        (b'{"format": "mirage-episodes/1", "features": [], "cluster": []}', "not complete"),
        (b"{", "damaged"),
    ],
)
def test_other_metadata_is_told(tmp_path: Path, meta: bytes, said: str) -> None:
    damaged = rewritten(saved(tmp_path), "meta.json", meta)
    with pytest.raises(InputError, match=said):
        EpisodeTable.load(damaged)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        EpisodeTable.load(tmp_path / "nowhere.npz")


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        table(THREE).save(tmp_path / "no folder" / "E.npz")
    assert list(tmp_path.iterdir()) == []


def test_columns_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="free_nodes is int32"):
        table(THREE, free_nodes=np.zeros((2, 2), dtype=np.int32))


def test_a_file_from_before_pairs_had_a_partition_loads(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json"))
    for name in ("partition", "qos", "user", "account"):
        assert meta.pop(name) == ""
    loaded = EpisodeTable.load(rewritten(path, "meta.json", json.dumps(meta).encode()))
    assert loaded.metadata == EpisodeTable.load(path).metadata


def test_joined_tables_keep_each_episodes_rows() -> None:
    first, second = table(THREE, waits_s=(5, 7)), table([[1.0, 2.0, 3.0]], waits_s=(9,))
    both = join_tables([first, second])
    assert both.outcome_h.tolist() == [*THREE, [1.0, 2.0, 3.0]]
    assert [both.get_started_jobs(i).wait_s.tolist() for i in range(3)] == [[5, 7], [5, 7], [9]]
