"""Idempotency-Key: a request that was sent twice, as after a lost connection, is done once and answered twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Header, Response
from pydantic import TypeAdapter

from app.errors import ConflictError, InputError
from app.ports.catalog import IdempotencyRecords
from app.types.access import OPERATOR, current_principal

KEPT = timedelta(days=1)
LEASE = timedelta(minutes=5)  # longer than any request takes; after it the request of a process that died is done anew

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A new one for each thing to be done, as a UUID; sent again, it gets the first answer for a day.",
    ),
]


def answer_once(
    answers: IdempotencyRecords,
    key: str | None,
    *,
    asked: Callable[[], str],
    do: Callable[[], object],
    shape: Any,
    status: int,
) -> object:
    """What `do` gives, or the answer that it gave under this key before. `asked` tells requests apart.

    Failures are not recorded: the same request can be sent again.
    """
    if key is None:
        return do()
    principal = current_principal() or OPERATOR
    caller = f"{principal.name}/{principal.key_id or ''}"  # another key of the same user may do less
    digest = hashlib.sha256(asked().encode("utf-8", "surrogatepass")).hexdigest()
    record = answers.begin_answer(caller, key, digest=digest, lease=LEASE)
    if record is not None:
        if record.digest != digest:
            raise InputError("This Idempotency-Key belongs to another request. Take a new key for a new request.")
        if record.status is None:
            raise ConflictError("The first request with this Idempotency-Key is still being done. Send it again soon.")
        return _answer(record.body, record.status, is_repeated=True)
    try:
        body = TypeAdapter(shape).dump_json(TypeAdapter(shape).validate_python(do(), from_attributes=True)).decode()
        answers.keep_answer(caller, key, status=status, body=body, keep=KEPT)
    except BaseException:
        answers.forget_answer(caller, key)
        raise
    return _answer(body, status)


def _answer(body: str, status: int, *, is_repeated: bool = False) -> Response:
    headers = {"Idempotency-Replayed": "true"} if is_repeated else None
    return Response(body, status_code=status, media_type="application/json", headers=headers)
