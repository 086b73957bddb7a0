"""Parses each document in a child process that can be killed: a file may hang, crash or take over its parser."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from app.errors import DocumentError, FilesUnavailableError, ServerLimitError
from app.ports.texts import TextSink
from app.types.pages import PageWords
from app.types.texts import Findings
from ingest.readers.children import MAX_CHILDREN, ChildPool
from ingest.readers.limits import (
    DEFAULT_LIMITS,
    DEFAULT_PROCESS_LIMITS,
    PAGE_PROCESS_LIMITS,
    ProcessLimits,
    ReadLimits,
    check_size,
)
from ingest.readers.messages import PageRequest, ReadRequest, Refusal


class ProcessReader:
    """The port `Reader`. Thread-safe: each call has a child to itself, or waits for one.

    `is_stopping` is polled while a document is parsed; once true, parsing ends with UnavailableError.
    """

    def __init__(
        self,
        *,
        limits: ReadLimits = DEFAULT_LIMITS,
        process_limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
        is_stopping: Callable[[], bool] = lambda: False,
        max_children: int = MAX_CHILDREN,
    ) -> None:
        self._limits = limits
        self._process_limits = process_limits
        self._pool = ChildPool(process_limits, is_stopping=is_stopping, max_children=max_children)

    def __call__(self, path: Path, *, uri: str, media_type: str | None = None, into: TextSink) -> Findings:
        check_size(_size_of(path), self._limits)
        request = ReadRequest(str(path.absolute()), uri, media_type, self._limits, self._process_limits)
        answer = self._pool.run(
            lambda child: child.read(request, into, is_stopping=self._pool.is_to_stop), again=into.clear
        )
        if isinstance(answer, Refusal):
            raise _error_of(answer, path)
        return answer

    @property
    def child_ids(self) -> frozenset[int]:
        """Process ids of the children that exist now."""
        return self._pool.child_ids

    def close(self) -> None:
        """Ends the children. Running calls end with UnavailableError shortly after."""
        self._pool.close()

    def __enter__(self) -> Self:
        """Starts the first child, so that it loads the parsers while other parts start."""
        self._pool.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProcessPageRenderer:
    """The port `PageRenderer`, in child processes of its own, which start with the first page."""

    def __init__(
        self,
        *,
        limits: ReadLimits = DEFAULT_LIMITS,
        process_limits: ProcessLimits = PAGE_PROCESS_LIMITS,
        max_children: int = 2,
    ) -> None:
        self._limits = limits
        self._process_limits = process_limits
        self._pool = ChildPool(process_limits, is_stopping=lambda: False, max_children=max_children)

    def words(self, path: Path, *, media_type: str, page: int) -> PageWords:
        words = self._ask(path, media_type, page, 0)
        assert isinstance(words, PageWords)
        return words

    def image(self, path: Path, *, media_type: str, page: int, width: int) -> bytes:
        image = self._ask(path, media_type, page, width)
        assert isinstance(image, bytes)
        return image

    def close(self) -> None:
        self._pool.close()

    def _ask(self, path: Path, media_type: str, page: int, width: int) -> PageWords | bytes:
        check_size(_size_of(path), self._limits)
        request = PageRequest(str(path.absolute()), media_type, page, width, self._limits, self._process_limits)
        answer = self._pool.run(lambda child: child.page(request, is_stopping=self._pool.is_to_stop))
        if isinstance(answer, Refusal):
            raise _error_of(answer, path)
        return answer


def _error_of(refusal: Refusal, path: Path) -> DocumentError | FileNotFoundError:
    if refusal.is_missing:
        return FileNotFoundError(path)
    return ServerLimitError(refusal.reason) if refusal.is_limit else DocumentError(refusal.reason)


def _size_of(path: Path) -> int:
    """The size of the file in bytes. Raises FilesUnavailableError if the disk refuses it, which is no document
    error."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FilesUnavailableError(
            f"The stored file {path} cannot be read: {error.strerror or error}. Check that its disk is there."
        ) from error
