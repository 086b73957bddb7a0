"""Documents over HTTP: add, show, delete."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, BinaryIO, NamedTuple
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from app.access.authorized_services import AuthorizedServices
from app.api.fair_slots import FairSlots, SlotLimits
from app.api.idempotency import IdempotencyKey, answer_once
from app.api.openapi import PROBLEMS
from app.api.schemas import DocumentAnswer, JobAnswer, NewText, NewUrl, SubmissionAnswer
from app.documents.fetching import ReadUrl
from app.errors import InputError
from app.types.access import OPERATOR, current_principal
from app.types.defaults import DEFAULT_COLLECTION
from app.types.documents import Document, Job, Metadata, MetadataValue, Source
from app.types.uris import upload_uri

TITLE_CHARACTERS = 80

_DRIVE = re.compile("[A-Za-z]:|fakepath")  # a Windows drive, and the folder that browsers write to hide the real one
_METADATA = TypeAdapter(dict[str, MetadataValue])
_MAPPING = TypeAdapter(dict[str, Any])


class PostedDocument(NamedTuple):
    collection: str
    source: Source | NewUrl  # an uploaded file is on disk, unless it is small


@dataclass(frozen=True, slots=True)
class Submission:
    document: Document
    job: Job | None


# One path takes two kinds of body, which FastAPI cannot derive from a signature.
POST_DOCUMENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"oneOf": [NewText.model_json_schema(), NewUrl.model_json_schema()]}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "collection": {"type": "string", "default": DEFAULT_COLLECTION},
                        "title": {"type": "string"},
                        "folder": {
                            "type": "string",
                            "description": "Folder of the file, such as `reports/2024`. Part of its identity.",
                        },
                        "uri": {"type": "string"},
                        "metadata": {"type": "string", "description": "A JSON object."},
                    },
                }
            },
        },
    }
}


# A page is held in memory until it is whole, up to 100 MB twice, and its server may be slow.
FETCHES_AT_ONCE, FETCHES_OF_USER = 8, 2

OTHER_BODY: dict[int | str, dict[str, Any]] = {415: {**PROBLEMS[422], "description": "Unsupported content type."}}


def document_routes(services: AuthorizedServices, *, read_url: ReadUrl | None) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/documents", tags=["documents"])
    catalog = services.catalog
    slots = FairSlots(SlotLimits(FETCHES_AT_ONCE, of_client=FETCHES_OF_USER))

    @routes.post(
        "", status_code=202, response_model=SubmissionAnswer, openapi_extra=POST_DOCUMENT_BODY, responses=OTHER_BODY
    )
    async def add_document(
        posted: Annotated[PostedDocument, Depends(_posted_document)], key: IdempotencyKey = None
    ) -> object:
        """Adds a file, a text or the page at a `url` and queues its ingestion. Follow the progress with the job."""
        add = partial(
            answer_once,
            services.idempotency,
            key,
            request_text=lambda: f"add_document {_identity_of(posted)}",
            do=lambda: _add(services, posted, read_url),
            shape=SubmissionAnswer,
            status=202,
        )
        if not isinstance(posted.source, NewUrl):
            return await run_in_threadpool(add)
        async with slots.turn((current_principal() or OPERATOR).name):
            return await run_in_threadpool(add)

    @routes.get("/{document_id}", response_model=DocumentAnswer)
    def show_document(document_id: str) -> Document:
        """A document with its state and, if ingestion failed, the error."""
        return catalog.document(document_id)

    @routes.delete("/{document_id}", status_code=202, response_model=JobAnswer)
    def delete_document(document_id: str) -> Job:
        """Queues the deletion of the document with all its vectors."""
        return services.library.delete_document(document_id)

    return routes


def _add(services: AuthorizedServices, posted: PostedDocument, read_url: ReadUrl | None) -> Submission:
    source = posted.source
    if isinstance(source, NewUrl):
        source = _fetched(source, read_url)
    document, job = services.library.add_document(posted.collection, source)
    return Submission(document=document, job=job)


def _identity_of(posted: PostedDocument) -> str:
    """A string that is equal for equal documents, however their form was encoded. Files count by their SHA-256."""
    source = posted.source
    if isinstance(source, NewUrl):
        return json.dumps(source.model_dump())
    with source.opened() as file:
        digest = _hash_of(file)
    return json.dumps((posted.collection, source.uri, source.media_type, source.title, dict(source.metadata), digest))


def _fetched(new: NewUrl, read_url: ReadUrl | None) -> Source:
    if read_url is None:
        raise InputError("This server does not fetch URLs. Send the document itself.")
    return replace(read_url(new.url), title=new.title, metadata=new.metadata)


async def _posted_document(request: Request) -> AsyncIterator[PostedDocument]:
    """Parse the body as JSON or form. An uploaded file stays open until the response is sent."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        async with request.form(max_files=1, max_fields=8) as form:
            yield await run_in_threadpool(_posted_file, form)
    elif kind == "application/json":
        yield _posted_json(await request.body())
    else:
        raise HTTPException(415, "Send application/json with a text or URL, or multipart/form-data with a file.")


def _posted_json(body: bytes) -> PostedDocument:
    """Parse a JSON body: with the field `url` it is a page to fetch, otherwise a text."""
    try:
        if "url" in _MAPPING.validate_json(body):
            url = NewUrl.model_validate_json(body)
            return PostedDocument(url.collection, url)
        new = NewText.model_validate_json(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error
    data = new.text.encode()
    uri = new.uri or f"text://{hashlib.sha256(data).hexdigest()}"
    title = new.title or _first_words(new.text)
    return PostedDocument(new.collection, Source(uri, uri, "text/plain", data=data, title=title, metadata=new.metadata))


def _first_words(text: str) -> str:
    """The title for a text that has none: its first words, at most `TITLE_CHARACTERS`."""
    return textwrap.shorten(text[: 10 * TITLE_CHARACTERS].replace("\x00", " "), TITLE_CHARACTERS, placeholder=" …")


def _posted_file(form: FormData) -> PostedDocument:
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise HTTPException(422, "The form has no file; send it in the field `file`.")
    texts = {key: value for key, value in form.items() if isinstance(value, str)}
    # Browsers percent-encode only these three characters in names of form files.
    filename = re.sub("%0A|%0D|%22", lambda match: unquote(match[0]), file.filename or "")
    *folders, name = _path_parts(filename) or [_hash_of(file.file)]
    source = Source(
        name,
        texts.get("uri") or upload_uri("/".join([*_path_parts(texts.get("folder", "")), *folders, name])),
        _media_type(file.content_type),
        file=file.file,
        title=texts.get("title", ""),
        metadata=_parse_metadata(texts.get("metadata")),
    )
    return PostedDocument(texts.get("collection") or DEFAULT_COLLECTION, source)


def _path_parts(path: str) -> list[str]:
    """Split a client's file path into folders and name, without drives and `.` or `..`.

    The folders are part of the identity: two files of the same name in two folders are two documents.
    """
    parts = re.split(r"[/\\]", path)
    return [part for part in parts if part.strip() not in ("", ".", "..") and not _DRIVE.fullmatch(part)]


def _hash_of(file: BinaryIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # which lacks readinto


def _parse_metadata(text: str | None) -> Metadata:
    if not text:
        return {}
    try:
        return _METADATA.validate_json(text)  # unlike json.loads, it refuses deep nesting and endless numbers
    except ValidationError as error:
        raise HTTPException(422, "metadata must be a JSON object of strings, numbers and booleans.") from error


def _media_type(declared: str | None) -> str:
    """The declared media type, with text/plain replaced by octet-stream, which makes ingestion detect the real type.

    Many clients send text/plain without checking the file. Parameters such as the charset are kept.
    """
    kind, sign, parameters = (declared or "").partition(";")
    return f"application/octet-stream{sign}{parameters}" if kind.strip().lower() == "text/plain" else declared or ""
