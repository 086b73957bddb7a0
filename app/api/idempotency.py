"""Idempotency-Key: a request that is sent again, as after a lost connection, runs once; both get the same answer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Header, Response
from pydantic import TypeAdapter

from app.errors import CatalogUnavailableError, ConflictError, InputError
from app.ports.catalog import IdempotencyRecords
from app.types.access import OPERATOR, current_principal
from app.types.patience import waiting_long

KEPT = timedelta(days=1)
LEASE = timedelta(minutes=5)  # longer than any request takes; afterwards a request whose process died may run again

_log = logging.getLogger(__name__)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A new unique value per operation, such as a UUID. For a day, a repeated request with this key "
        "gets the first answer.",
    ),
]


def answer_once(
    answers: IdempotencyRecords,
    key: str | None,
    *,
    request_text: Callable[[], str],
    do: Callable[[], object],
    shape: Any,
    status: int,
) -> object:
    """Run `do` and record its result under the key, or return the recorded result as a JSON response.

    `request_text` identifies the request: the same key with another text is an InputError. While the first request
    still runs, a second one is a ConflictError. Failures are not recorded, so the client can send the request again.
    A result that a locked catalog does not record is returned nevertheless: a second request runs after LEASE.
    `shape` is the type of the response body.
    """
    if key is None:
        return do()
    principal = current_principal() or OPERATOR
    caller = f"{principal.name}/{principal.key_id or ''}"  # another key of the same user may do less
    digest = hashlib.sha256(request_text().encode("utf-8", "surrogatepass")).hexdigest()
    record = answers.begin(caller, key, digest=digest, lease=LEASE)
    if record is not None:
        if record.digest != digest:
            raise InputError("This Idempotency-Key belongs to another request. Use a new key for a new request.")
        if record.status is None:
            raise ConflictError("The first request with this Idempotency-Key is still running. Retry soon.")
        return _answer(record.body, record.status, is_repeated=True)
    try:
        body = TypeAdapter(shape).dump_json(TypeAdapter(shape).validate_python(do(), from_attributes=True)).decode()
    except BaseException:
        with suppress(CatalogUnavailableError), waiting_long():
            answers.forget(caller, key)
        raise
    try:
        with waiting_long():
            answers.keep(caller, key, status=status, body=body, keep=KEPT)
    except CatalogUnavailableError as error:
        _log.warning("The answer to a request with an Idempotency-Key is not recorded: %s", error)
    return _answer(body, status)


def _answer(body: str, status: int, *, is_repeated: bool = False) -> Response:
    headers = {"Idempotency-Replayed": "true"} if is_repeated else None
    return Response(body, status_code=status, media_type="application/json", headers=headers)
