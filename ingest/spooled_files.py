"""Temporary files for the text and the chunks of one document: in memory when small, on disk when large."""

from __future__ import annotations

import struct
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

from app.errors import FilesUnavailableError, full_disk_reason, is_full_disk
from app.types.documents import Chunk
from app.types.texts import Cell, Mark, TextLayout, TextPart, Word

_IN_MEMORY_BYTES = 4_000_000
_CHUNK = struct.Struct("<16s32sQQI")  # id, text hash, start, end, page (0: none)
_ROWS_PER_READ = 1_000


class _SpooledFile:
    """An unnamed temporary file, which the system removes when the process ends. `folder` must be on a disk."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        where = None if folder is None else str(folder)
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, dir=where)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        """Translates an OSError to FilesUnavailableError, so that the job is retried later."""
        try:
            yield
        except OSError as error:
            folder = self._folder or tempfile.gettempdir()
            if is_full_disk(error):
                raise FilesUnavailableError(full_disk_reason(folder)) from error
            raise FilesUnavailableError(
                f"A temporary file in {folder} cannot be used: {error.strerror or error}. "
                "Check that its disk is there and writable."
            ) from error


class SpooledText(_SpooledFile):
    """The text and layout of one document. Implements the port `TextSink`."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.clear()

    def clear(self) -> None:
        self._sizes: list[int] = []
        self.page_starts: list[int] = []
        # Columns of integers: a long table has hundreds of thousands of cells, a long scan millions of words.
        self._marks = _Columns("QQB")
        self._cells = _Columns("QQQL")
        self._words = _Columns("QQLHHHHB")
        self.character_count = 0
        self.has_text = False
        with self._errors_translated():
            self._file.seek(0)
            self._file.truncate()

    @property
    def byte_count(self) -> int:
        return sum(self._sizes)

    def write(self, part: TextPart) -> None:
        data = part.text.encode("utf-8", "surrogatepass")
        with self._errors_translated():
            self._file.write(data)
        self._sizes.append(len(data))
        self.page_starts += part.page_starts
        self._marks.extend(part.marks)
        self._cells.extend(part.cells)
        self._words.extend(part.words)
        self.character_count += len(part.text)
        self.has_text = self.has_text or bool(part.text.strip())

    def advance(self, share: float) -> None:
        """Does nothing: progress is not stored."""

    def marks(self, begin: int, end: int) -> list[Mark]:
        """Marks that begin in characters [begin, end), with offsets from `begin`."""
        stored = (Mark(*row) for row in self._marks.rows(begin, end))
        return [Mark(start - begin, last - begin, level) for start, last, level in stored]

    @property
    def layout(self) -> TextLayout:
        """The layout of the whole text. Its items are created on access."""
        return TextLayout(
            self.page_starts,
            _Rows(self._marks, Mark),
            _Rows(self._cells, Cell),
            _Rows(self._words, Word),
        )

    def parts(self) -> Iterator[str]:
        """The parts, decoded. Only one iteration at a time: all share the file position."""
        with self._errors_translated():
            self._file.seek(0)
        for size in self._sizes:
            with self._errors_translated():
                data = self._file.read(size)
            yield data.decode("utf-8", "surrogatepass")


class _Columns:
    """Rows of integers, one array per column, sorted by the first."""

    def __init__(self, types: str) -> None:
        self._columns = tuple(array(type_code) for type_code in types)

    def __len__(self) -> int:
        return len(self._columns[0])

    def extend(self, rows: Sequence[Sequence[int]]) -> None:
        for column, values in zip(self._columns, zip(*rows, strict=True), strict=False):
            column.extend(values)

    def rows(self, begin: int, end: int) -> Iterator[tuple[int, ...]]:
        """The rows whose first number is in [begin, end)."""
        chosen = slice(bisect_left(self._columns[0], begin), bisect_left(self._columns[0], end))
        yield from zip(*(column[chosen] for column in self._columns), strict=True)

    def row(self, number: int) -> tuple[int, ...]:
        return tuple(column[number] for column in self._columns)


Item = TypeVar("Item", bound=Mark | Cell | Word)


class _Rows(Sequence[Item]):
    """A sequence that creates each item on access."""

    def __init__(self, columns: _Columns, make: Callable[..., Item]) -> None:
        self._columns = columns
        self._make = make

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        return self._make(*self._columns.row(number))


class SpooledChunks(_SpooledFile):
    """The chunks of one document in order, without their texts. Can be iterated again, but only once at a time."""

    def __init__(self, document_id: str, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._document_id = document_id
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def write(self, chunk: Chunk) -> None:
        self._count += 1
        row = (UUID(chunk.id).bytes, bytes.fromhex(chunk.text_hash), chunk.start, chunk.end, chunk.page or 0)
        with self._errors_translated():
            self._file.write(_CHUNK.pack(*row))

    def __iter__(self) -> Iterator[Chunk]:
        with self._errors_translated():
            self._file.seek(0)
        ordinal = 0
        while data := self._read():
            for point_id, text_hash, start, end, page in _CHUNK.iter_unpack(data):
                yield Chunk(
                    id=str(UUID(bytes=point_id)),
                    document_id=self._document_id,
                    ordinal=ordinal,
                    text="",
                    text_hash=text_hash.hex(),
                    start=start,
                    end=end,
                    page=page or None,
                )
                ordinal += 1

    def _read(self) -> bytes:
        with self._errors_translated():
            return self._file.read(_ROWS_PER_READ * _CHUNK.size)
