"""The process that syncs one source: `python -m ingest.recurring.sync_child`.

Everything that a server sends is decoded and parsed here. The process ends when stdin closes, together with the
programs that it has started.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from app.errors import DocumentError, InputError, VanishedError
from app.ports.sources import OpenedSource, SourceReader
from app.types.credentials import Credentials
from app.types.sources import Fetched, ItemMark, Listing, SourceKind
from ingest.addresses import is_public
from ingest.readers.child_side import address_space, be_ended_first, forbid_files, lift_alarm, limit, take_streams
from ingest.readers.limits import ProcessLimits
from ingest.readers.messages import OUT_OF_MEMORY_EXIT_CODE, READY, write_frame
from ingest.recurring.git import GitSourceReader
from ingest.recurring.hosts import SourceHostGuard
from ingest.recurring.imap import ImapSourceReader
from ingest.recurring.sync_messages import (
    ITEMS_PER_PART,
    MAX_ADDRESS,
    MAX_LISTED_CHARACTERS,
    MAX_MARK,
    MAX_REASON,
    ChildRequest,
    FetchRequest,
    ItemHead,
    ItemsEnd,
    ItemsPart,
    Kind,
    Progress,
    SyncRefusal,
    SyncRequest,
    Unchanged,
    read_sync_request,
    write_answer,
)
from ingest.recurring.web import WebSourceReader
from ingest.urls import UrlReader


def main() -> None:
    requests, answers = take_streams()
    be_ended_first()
    inbox: queue.SimpleQueue[ChildRequest] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    write_frame(answers, READY)
    sync = inbox.get()
    assert isinstance(sync, SyncRequest)
    try:
        _Sync(sync, answers).serve(inbox)
    except MemoryError:
        os._exit(OUT_OF_MEMORY_EXIT_CODE)  # half-done work holds memory, and no state is reliable now


class _Sync:
    def __init__(self, request: SyncRequest, answers: BinaryIO) -> None:
        self._request = request
        self._answers = answers
        # git writes files and maps more memory than it uses, so only the worker limits it, from outside.
        self._has_program = request.source.kind is SourceKind.GIT
        self._start_bytes = address_space()

    def serve(self, inbox: queue.SimpleQueue[ChildRequest]) -> None:
        if not self._has_program:
            forbid_files()
        with ExitStack() as opened:
            source = self._open(opened)
            while source is not None:
                request = inbox.get()
                assert isinstance(request, FetchRequest)
                self._fetch(source, request)
        inbox.get()  # wait until the worker has read the refusal and closes the pipe

    def _open(self, opened: ExitStack) -> OpenedSource | None:
        """Opens the source and sends its listing. None after a refusal."""
        request = self._request
        self._limit(request.limits)
        try:
            reader = _reader_of(request)
            source = opened.enter_context(reader.open(request.source, request.marks, beat=self._beat))
            self._send_listing(source.items())
        except InputError as error:
            write_answer(self._answers, _refusal(error))
            return None
        lift_alarm()
        return source

    def _beat(self) -> None:
        if not self._has_program:  # with git, a beat only shows that the program is running, not that a page arrived
            self._limit(self._request.limits)
            write_answer(self._answers, Progress())

    def _limit(self, limits: ProcessLimits) -> None:
        if not self._has_program:
            limit(limits, self._start_bytes)

    def _send_listing(self, listing: Listing) -> None:
        kept = _fitting(listing.items, MAX_LISTED_CHARACTERS)
        for start in range(0, len(kept), ITEMS_PER_PART):
            part = {address: _cut(listing.items[address]) for address in kept[start : start + ITEMS_PER_PART]}
            write_answer(self._answers, ItemsPart(part))
        note, is_whole = listing.note, listing.is_whole
        if len(kept) < len(listing.items):
            note, is_whole = (
                f"Only the first {len(kept):,} items are synced: all addresses together are too long.",
                False,
            )
        write_answer(self._answers, ItemsEnd(is_whole, note and note[:MAX_REASON]))

    def _fetch(self, source: OpenedSource, request: FetchRequest) -> None:
        self._limit(request.limits)
        try:
            fetched = source.fetch(request.address, request.mark)
        except InputError as error:
            write_answer(self._answers, _refusal(error))
        else:
            self._send(fetched)
        lift_alarm()

    def _send(self, fetched: Fetched | None) -> None:
        if fetched is None:
            write_answer(self._answers, Unchanged())
            return
        source, mark = fetched.source, _cut(fetched.mark)
        assert mark is not None
        head = ItemHead(source.name, source.uri, source.media_type, mark, len(source.data))
        write_answer(self._answers, head)
        write_frame(self._answers, source.data)


class _GivenCredentials:
    """The port `SourceCredentials` with the credentials that the worker found for this source."""

    def __init__(self, own: Credentials | None) -> None:
        self._own = own

    def names_for(self, user: str) -> list[str]:
        raise AssertionError("unreachable: not called in the child")

    def find(self, name: str, *, user: str, address: str) -> Credentials:
        assert self._own is not None
        return self._own


def _reader_of(request: SyncRequest) -> SourceReader:
    is_allowed = _is_any if request.may_be_private else is_public
    guard, credentials = SourceHostGuard(is_allowed=is_allowed), _GivenCredentials(request.credentials)
    match request.source.kind:
        case SourceKind.GIT:
            return GitSourceReader(guard=guard, credentials=credentials, folder=Path(request.folder))
        case SourceKind.IMAP:
            return ImapSourceReader(guard=guard, credentials=credentials)
        case SourceKind.S3:
            return _s3_reader(guard, credentials)
        case _:
            return WebSourceReader(UrlReader(is_allowed=is_allowed))


def _s3_reader(guard: SourceHostGuard, credentials: _GivenCredentials) -> SourceReader:
    if find_spec("minio") is None:
        raise InputError("Buckets need the package minio: pip install 'gircse-search[sources]'")
    from ingest.recurring.s3 import S3SourceReader

    return S3SourceReader(guard=guard, credentials=credentials)


def _is_any(address: str) -> bool:
    return True


def _refusal(error: InputError) -> SyncRefusal:
    kind = Kind.INPUT
    if isinstance(error, DocumentError):
        kind = Kind.VANISHED if isinstance(error, VanishedError) else Kind.DOCUMENT
    reason = str(error)[:MAX_REASON]
    return SyncRefusal(kind, "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in reason))


def _fitting(addresses: Iterable[str], characters: int) -> list[str]:
    """The first addresses, up to `characters` in total. Skips addresses too long for a document."""
    short = [address for address in addresses if len(address) <= MAX_ADDRESS]
    lengths = accumulate(map(len, short))
    return [address for address, length in zip(short, lengths, strict=True) if length <= characters]


def _cut(mark: ItemMark | None) -> ItemMark | None:
    return mark and ItemMark(mark.etag[:MAX_MARK], mark.modified[:MAX_MARK])


def _receive(requests: BinaryIO, inbox: queue.SimpleQueue[ChildRequest]) -> None:
    try:
        while True:
            inbox.put(read_sync_request(requests))
    except EOFError:
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)  # includes git, if started: this process leads its own session
        os._exit(0)


if __name__ == "__main__":
    main()
