"""Reads the numbered lines of a text file, plain or gzip, and explains how a file is broken."""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from mirage.errors import InputError
from mirage.history.formats.trace_row import Outcome, Refusal, try_parse
from mirage.slurm.commands.sacct_record import Record

_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16


def read_head(path: Path) -> bytes:
    """Read the first bytes of a file, unpacked if it is gzip. Raises InputError if the file cannot
    be opened."""
    with _open_file(path) as raw:
        is_gzip = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        if not is_gzip:
            return raw.read(_HEAD_BYTES)
        with gzip.GzipFile(fileobj=raw) as unpacked:
            return _read_unpacked(path, lambda: unpacked.read1(_HEAD_BYTES))


class TextLines:
    """An iterator of (line number, line) over a text file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.is_unterminated = False
        """True if the line last returned has no newline. It is then the file's last line, and may
        be cut short."""
        self.is_garbled = False
        """True if the line last returned is not valid UTF-8. The invalid bytes were replaced."""
        self._raw = _open_file(path)
        self._size = max(1, os.fstat(self._raw.fileno()).st_size)
        is_gzip = self._raw.peek(len(_GZIP))[:2] == _GZIP  # type: ignore[attr-defined]
        self._plain = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if is_gzip else self._raw

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        line = _read_unpacked(self.path, self._plain.readline)
        if not line:
            self.close()
            raise StopIteration
        self.number += 1
        self.is_unterminated = not line.endswith(b"\n")
        text = self._decode_line(line).rstrip("\r\n")
        return self.number, text.removeprefix("\ufeff") if self.number == 1 else text

    def _decode_line(self, line: bytes) -> str:
        self.is_garbled = False
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.is_garbled = True
            return line.decode(errors="replace")

    @property
    def share(self) -> float:
        """The share of the file that has been read, 0 to 1."""
        return 1.0 if self._raw.closed else self._raw.tell() / self._size

    def close(self) -> None:
        self._plain.close()
        self._raw.close()

    def make_truncated_error(self, reason: str) -> InputError:
        return InputError(
            f"{self.path} is truncated: {reason}. Rows before that are good; "
            "ingest the complete file to have the rest"
        )


def _skip_nothing(_line: str) -> bool:
    return False


def parse_lines(
    lines: TextLines,
    parse: Callable[[str], Record],
    *,
    is_ignored: Callable[[str], bool] = _skip_nothing,
) -> Iterator[tuple[int, Outcome]]:
    """Yield the line number and a record or a refusal for each line that is not ignored. Raises
    InputError at a line that is cut short."""
    for number, line in lines:
        if not line.strip() or is_ignored(line):
            continue
        outcome = Refusal("not UTF-8") if lines.is_garbled else try_parse(parse, line)
        if lines.is_unterminated and isinstance(outcome, Refusal) and not outcome.skipped:
            raise lines.make_truncated_error(
                f"its last line, {number}, is cut short ({outcome.reason})"
            )
        yield number, outcome


def _open_file(path: Path) -> BinaryIO:
    if path.is_dir():
        raise InputError(f"{path} is a directory: a trace file is expected")
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _read_unpacked(path: Path, read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except EOFError as error:
        raise InputError(
            f"{path} is truncated: its gzip data ends in the middle. Rows before that are good; "
            "ingest the complete file to have the rest"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged gzip: {error}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
