"""Temporary files for the text and the chunks of one document: in memory when small, on disk when large."""

from __future__ import annotations

import struct
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from uuid import UUID

from app.errors import FilesUnavailableError, full_disk_reason, is_full_disk
from app.types.documents import Chunk
from app.types.texts import Mark, TextPart

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
        """As UnavailableError: the job is tried again later."""
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
    """Implements the port `TextSink`."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.clear()

    def clear(self) -> None:
        self._sizes: list[int] = []
        self.page_starts: list[int] = []
        self._marks = (array("Q"), array("Q"), array("B"))  # a long table has hundreds of thousands
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
        for mark in part.marks:
            for column, value in zip(self._marks, mark, strict=True):
                column.append(value)
        self.character_count += len(part.text)
        self.has_text = self.has_text or bool(part.text.strip())

    def marks(self, begin: int, end: int) -> list[Mark]:
        """Those that begin in characters [begin, end), counted from `begin`."""
        starts, ends, levels = self._marks
        chosen = slice(bisect_left(starts, begin), bisect_left(starts, end))
        return [
            Mark(start - begin, last - begin, level)
            for start, last, level in zip(starts[chosen], ends[chosen], levels[chosen], strict=True)
        ]

    def parts(self) -> Iterator[str]:
        """One iteration at a time: all share the position in the file."""
        with self._errors_translated():
            self._file.seek(0)
        for size in self._sizes:
            with self._errors_translated():
                data = self._file.read(size)
            yield data.decode("utf-8", "surrogatepass")


class SpooledChunks(_SpooledFile):
    """The chunks of one document in their order, without their texts."""

    def __init__(self, document_id: str, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._document_id = document_id

    def write(self, chunk: Chunk) -> None:
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
