"""Syncs each source in a child process, so that server input cannot exhaust this process and the child can be killed.

Every step has a deadline, however slowly a server answers. `beat` ends the sync when it raises.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from app.errors import DocumentError, FilesUnavailableError, InputError, SyncEndedError, VanishedError
from app.ports.sources import OpenedSource, SourceCredentials
from app.types.documents import Source
from app.types.sources import MAX_LISTED_ITEMS, Fetched, ItemMark, Listing, RecurringSource, SourceKind
from app.types.uris import canonical_uri
from ingest.readers.child_process import Check, ChildLostError, ChildProcess
from ingest.readers.limits import DEFAULT_LIMITS, MEGABYTE, ProcessLimits
from ingest.readers.messages import MessageError, read_frame_into
from ingest.recurring.sync_messages import (
    MAX_LISTED_CHARACTERS,
    Answer,
    FetchRequest,
    ItemHead,
    ItemsEnd,
    ItemsPart,
    Kind,
    Progress,
    SyncRefusal,
    SyncRequest,
    Unchanged,
    read_answer,
    write_sync_request,
)
from ingest.recurring.temporary import temporary_folder

_MEMORY_BYTES = 500 * MEGABYTE  # the fetching libraries hold more than one copy of a document of 100 MB
_MAX_CHILDREN = 6  # per sync: an item that hangs costs its child, and the next item starts a new one
_ERRORS = {Kind.INPUT: InputError, Kind.DOCUMENT: DocumentError, Kind.VANISHED: VanishedError}


@dataclass(frozen=True, slots=True)
class SyncLimits:
    """Wall time in seconds for one page of a listing, the whole listing, and one item.

    A repository is fetched by one command for many files, so its steps get more time.
    """

    page_s: float = 300
    list_s: float = 1_800
    item_s: float = 300
    repository_s: float = 1_800
    memory_bytes: int = _MEMORY_BYTES

    def of_list(self, kind: SourceKind) -> ProcessLimits:
        return self._of(self.repository_s if kind is SourceKind.GIT else self.page_s)

    def of_item(self, kind: SourceKind) -> ProcessLimits:
        return self._of(self.repository_s if kind is SourceKind.GIT else self.item_s)

    def _of(self, wall_s: float) -> ProcessLimits:
        return ProcessLimits(wall_s=wall_s, memory_bytes=self.memory_bytes)


class SyncingReader:
    """The port `SourceReader` for every kind of source. Each sync has its own child, which knows no other source."""

    def __init__(
        self,
        *,
        credentials: SourceCredentials,
        may_be_private: bool,
        folder: Path | None = None,
        limits: SyncLimits | None = None,
    ) -> None:
        """`may_be_private` allows addresses outside the public internet. `folder` holds temporary files; None: the
        system's own."""
        self._credentials = credentials
        self._may_be_private = may_be_private
        self._folder = folder
        self._limits = limits or SyncLimits()

    @contextmanager
    def open(
        self, source: RecurringSource, marks: Mapping[str, ItemMark], *, beat: Callable[[], None]
    ) -> Iterator[OpenedSource]:
        name = source.options.credentials
        own = self._credentials.find(name, user=source.owner, address=source.address) if name else None
        limits = self._limits.of_list(source.kind)
        with temporary_folder(self._folder, prefix="sync-") as folder:
            request = SyncRequest(source, marks, own, self._may_be_private, str(folder), limits)
            sync = _Sync(request, self._limits, beat)
            try:
                yield sync
            finally:
                sync.close()


class SyncChild(ChildProcess):
    module = "ingest.recurring.sync_child"
    environment = ("SSL_CERT_FILE", "SSL_CERT_DIR")

    def kill(self) -> None:
        """Kills the child and the programs that it has started."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):  # it has already ended
                os.killpg(self.pid, signal.SIGKILL)
        super().kill()

    def time_reason(self, limits: ProcessLimits) -> str:
        return (
            f"The server did not finish its response within {limits.wall_s:g} s, so it was given up. Check that it is "
            "up and how fast it sends; the next sync runs on schedule."
        )

    def cpu_reason(self, limits: ProcessLimits) -> str:
        return (
            f"Parsing the server's response took more than {limits.cpu_s} s of CPU time, so it was given up. Check "
            "its address, or select fewer items with patterns."
        )

    def memory_reason(self, limits: ProcessLimits) -> str:
        return (
            f"Parsing the server's response took more than {limits.memory_bytes / MEGABYTE:,.0f} MB of memory, so it "
            "was given up. Check its address, or select fewer items with patterns."
        )


class _Sync:
    """The port `OpenedSource`. After an error that ends the child, the next item starts a new one."""

    def __init__(self, request: SyncRequest, limits: SyncLimits, beat: Callable[[], None]) -> None:
        self._request = request
        self._limits = limits
        self._beat = beat
        self._child: SyncChild | None = None
        self._child_count = 0

    def items(self) -> Listing:
        with self._exchange(self._request, self._request.limits) as (answers, check):
            return self._listing(answers, check)

    def fetch(self, address: str, mark: ItemMark) -> Fetched | None:
        if self._child is None:
            self._restart_child()
        limits = self._limits.of_item(self._request.source.kind)
        with self._exchange(FetchRequest(address, mark, limits), limits) as (answers, _):
            match read_answer(answers):
                case Unchanged():
                    return None
                case ItemHead() as head if canonical_uri(head.uri) == canonical_uri(address):
                    return self._fetched(head, answers)
                case other:
                    _raise(other)

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def _restart_child(self) -> None:
        if self._child_count == _MAX_CHILDREN:
            raise SyncEndedError(
                f"{_MAX_CHILDREN} items could not be fetched completely; the others wait for the next sync. Check "
                "the server, or exclude such items with patterns."
            )
        try:
            self.items()
        except InputError as error:
            raise SyncEndedError(str(error)) from None

    @contextmanager
    def _exchange(self, request: SyncRequest | FetchRequest, limits: ProcessLimits) -> Iterator[tuple[BinaryIO, Check]]:
        child = self._child
        if child is None:
            child = self._child = SyncChild()
            self._child_count += 1
        is_kept = False
        try:
            with child.watched(limits, self._beat) as check:
                write_sync_request(child.requests, request)
                yield child.answers, check
            is_kept = True
        except _RefusedError as refused:
            is_kept = isinstance(request, FetchRequest)
            raise refused.error from None
        except ChildLostError as error:
            raise DocumentError(
                f"The process that synced the source ended ({error}): the server sent unreadable data. Check its "
                "address; the next sync runs on schedule."
            ) from error
        finally:
            if not is_kept:
                self.close()

    def _listing(self, answers: BinaryIO, check: Check) -> Listing:
        until = time.monotonic() + self._limits.list_s
        items: dict[str, ItemMark | None] = {}
        characters = 0
        while True:
            match read_answer(answers):
                case Progress():
                    if time.monotonic() > until:
                        raise DocumentError(_late(self._limits.list_s))
                    check.deadline = time.monotonic() + self._request.limits.wall_s
                case ItemsPart(part):
                    characters += sum(map(len, part))
                    items |= part
                    if len(items) > MAX_LISTED_ITEMS or characters > MAX_LISTED_CHARACTERS:
                        raise MessageError("the list is too long")
                case ItemsEnd(is_whole, note):
                    return Listing(items, is_whole=is_whole, note=note)
                case other:
                    _raise(other)

    def _fetched(self, head: ItemHead, answers: BinaryIO) -> Fetched:
        if head.byte_count > DEFAULT_LIMITS.max_bytes:
            raise MessageError("the item is too large")
        path = Path(self._request.folder) / "item"
        with _writing(path) as file:
            read_frame_into(answers, file, byte_count=head.byte_count)
        return Fetched(Source(name=head.name, uri=head.uri, media_type=head.media_type, path=path), head.mark)


def _late(list_s: float) -> str:
    return (
        f"The server's listing was not complete after {list_s / 60:,.0f} minutes, so it was given up. Use a folder "
        "or a prefix as the address, or several of them."
    )


@contextmanager
def _writing(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise FilesUnavailableError(
            f"A temporary file in {path.parent} cannot be written: {error.strerror or error}. Check that its disk is "
            "there and has space."
        ) from error


class _RefusedError(Exception):
    """The child refused a request but is still usable. Carries the error to raise."""

    def __init__(self, error: InputError) -> None:
        self.error = error


def _raise(answer: Answer) -> NoReturn:
    if isinstance(answer, SyncRefusal):
        raise _RefusedError(_ERRORS[answer.kind](answer.reason))
    raise MessageError("the answer does not match the request")
