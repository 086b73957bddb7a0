"""The process that parses documents, one after the other: `python -m ingest.readers.child`.

It communicates over stdin and stdout (see messages.py) and ends when stdin closes, so that it never outlives its
worker. It limits its own resources where the system allows; the worker watches it, too.
"""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from typing import BinaryIO

from app.errors import DocumentError, ServerLimitError
from app.types.pages import PageWords
from app.types.texts import Findings, TextPart
from ingest.readers.child_side import (
    address_space,
    be_ended_first,
    forbid_files,
    lift_alarm,
    limit,
    prolong,
    take_streams,
)
from ingest.readers.document import page_of, read_file
from ingest.readers.errors import damaged, parser_errors
from ingest.readers.limits import ProcessLimits
from ingest.readers.messages import (
    OUT_OF_MEMORY_EXIT_CODE,
    READY,
    Advance,
    PageRequest,
    ReadRequest,
    Refusal,
    read_request,
    write_frame,
    write_image,
    write_message,
)


def main() -> None:
    requests, answers = take_streams()
    be_ended_first()
    forbid_files()
    inbox: queue.SimpleQueue[ReadRequest | PageRequest] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    write_frame(answers, READY)
    request = inbox.get()
    start_bytes = address_space()  # includes what the thread has reserved for itself
    while True:
        limit(request.process_limits, start_bytes)
        try:
            answer = _answer(request, _Parts(answers, request.process_limits))
        except MemoryError:
            os._exit(OUT_OF_MEMORY_EXIT_CODE)  # half-done work holds memory, and no state is reliable now
        lift_alarm()
        if isinstance(answer, bytes):
            write_image(answers, answer)
        else:
            write_message(answers, answer)
        request = inbox.get()


class _Parts:
    """A `TextSink` that sends the parts to the worker."""

    def __init__(self, answers: BinaryIO, limits: ProcessLimits) -> None:
        self._answers = answers
        self._limits = limits

    def advance(self, share: float) -> None:
        prolong(self._limits.page_s)
        write_message(self._answers, Advance(share))

    def write(self, part: TextPart) -> None:
        write_message(self._answers, part)

    def clear(self) -> None:
        raise AssertionError("unreachable: only the worker starts over")


def _answer(request: ReadRequest | PageRequest, parts: _Parts) -> Findings | PageWords | bytes | Refusal:
    path = Path(request.path)
    try:
        if isinstance(request, PageRequest):
            return page_of(path, request.media_type, request.page, request.width, request.limits)
        return read_file(path, uri=request.uri, media_type=request.media_type, into=parts, limits=request.limits)
    except DocumentError as error:
        return Refusal(str(error), is_limit=isinstance(error, ServerLimitError))
    except FileNotFoundError:
        return Refusal("", is_missing=True)
    except parser_errors() as error:
        return Refusal(str(damaged("document", error)))


def _receive(requests: BinaryIO, inbox: queue.SimpleQueue[ReadRequest | PageRequest]) -> None:
    try:
        while True:
            inbox.put(read_request(requests))
    except EOFError:
        os._exit(0)  # even in the middle of a document: the worker cancelled it


if __name__ == "__main__":
    main()
