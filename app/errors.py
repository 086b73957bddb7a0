"""Every error that crosses a folder border.

GircseError
├── InputError                 the caller's input cannot be used                      422
│   ├── EmptyQueryError
│   ├── DocumentError          a document cannot be read; the reason goes on its row
│   │   ├── VanishedError      it is not there any more
│   │   └── SyncEndedError    nothing more of its source can be fetched now
│   ├── FilterError
│   └── ArchiveError
├── NotFoundError              something named does not exist                         404
│   ├── UnknownCollectionError
│   ├── UnknownDocumentError
│   ├── UnknownJobError
│   ├── UnknownLensError
│   ├── UnknownUserError
│   └── DamagedFileError       a stored file is missing or altered                   500
├── ConflictError              the request contradicts the present state              409
│   ├── FingerprintMismatchError
│   ├── LeaseLostError         another worker holds the job now
│   ├── CollectionPausedError  the job is to be given back
│   ├── StandingChangedError   other searches stand over the collection now than were asked
│   └── CatalogTooNewError
├── LoginRequiredError         the request is not authenticated                       401
│   └── UntrustedSignInError   what came by way of an OpenID provider does not hold
├── ForbiddenError             the caller may not do this                             403
├── ThrottledError             too many attempts; wait                                429
│   └── RequestQuotaError      a user has asked as often as they may in this minute
├── DeliveryError              what was found could not be told; the reason is shown       502
├── QuotaExceededError         a user stores as much as they may                      413
└── UnavailableError           a part does not answer; try again                      503
    ├── VectorIndexUnavailableError
    │   ├── EngineFaultError   the engine answers, with an error of its own
    │   └── DamagedIndexError  an index must be made anew; waiting does not help
    ├── EmbedderUnavailableError
    │   └── EmbedderBusyError  it has too much to do; wait                             429
    ├── RerankerUnavailableError
    ├── LanguageModelUnavailableError  the server that words answers
    │   ├── LanguageModelBusyError  wait                                               429
    │   └── CutOffError        what it wrote ended too soon
    ├── IncompleteDeletionError
    ├── CatalogUnavailableError
    │   └── DamagedCatalogError  it must be restored; waiting does not help
    ├── FilesUnavailableError
    └── ProviderUnavailableError  an OpenID provider
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self


class GircseError(Exception):
    """Root. `status` is the HTTP status that the API answers with."""

    status = 500


class InputError(GircseError, ValueError):
    status = 422


class EmptyQueryError(InputError):
    pass


class DocumentError(InputError):
    """A document cannot be read. The message is shown to the person who added it."""


class VanishedError(DocumentError):
    """What was to be fetched is not there."""


class SyncEndedError(DocumentError):
    """Nothing more can be fetched from this source now; what waits is fetched at its next sync."""


class FilterError(InputError):
    pass


class ArchiveError(InputError):
    """A file is no archive of a collection, or is damaged, or is not to be trusted."""


class NotFoundError(GircseError, LookupError):
    status = 404


class UnknownCollectionError(NotFoundError):
    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        there = f"There are: {', '.join(sorted(known))}." if known else "There are no collections yet."
        super().__init__(f"No collection named {name!r}. {there} `gircse ingest PATH --collection {name}` makes it.")


class UnknownDocumentError(NotFoundError):
    @classmethod
    def of(cls, document_id: str) -> Self:
        return cls(f"No document has the id {document_id!r}. `gircse documents` lists them.")


class UnknownJobError(NotFoundError):
    @classmethod
    def of(cls, job_id: str) -> Self:
        return cls(f"No job has the id {job_id!r}. `gircse jobs` lists them.")


class UnknownLensError(NotFoundError):
    def __init__(self, name: str, known: list[str]) -> None:
        there = f"There are: {', '.join(known)}." if known else "There are no lenses yet."
        super().__init__(f"No lens named {name!r}. {there} `gircse lenses save NAME -i INSTRUCTION` makes one.")


class UnknownUserError(NotFoundError):
    @classmethod
    def of(cls, name: str) -> Self:
        return cls(f"No user is named {name!r}. `gircse users list` shows them.")


class DamagedFileError(NotFoundError):
    """The bytes that were stored under this hash are there no more: the file is gone, cut or altered."""

    status = 500


class LoginRequiredError(GircseError):
    status = 401


class UntrustedSignInError(LoginRequiredError):
    """The message is for the log: it may say what a forger would like to know."""


class ForbiddenError(GircseError):
    status = 403


class ThrottledError(GircseError):
    status = 429

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RequestQuotaError(ThrottledError):
    pass


class DeliveryError(GircseError):
    """`is_final`: trying again would not help."""

    status = 502

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class QuotaExceededError(GircseError):
    status = 413


class ConflictError(GircseError):
    status = 409


class StandingChangedError(ConflictError):
    """To be asked again; nothing was changed."""


class FingerprintMismatchError(ConflictError):
    """A collection was written by another model, document instruction or number of document steps."""


class LeaseLostError(ConflictError):
    """The fencing token is no longer the newest: another worker has taken the job over."""


class CollectionPausedError(ConflictError):
    """Its collection was paused while the job was running."""


class CatalogTooNewError(ConflictError):
    """The database was written by a newer release."""


class UnavailableError(GircseError):
    status = 503


class VectorIndexUnavailableError(UnavailableError):
    pass


class EngineFaultError(VectorIndexUnavailableError):
    """The engine is there and fails: for a moment, or since what it has stored is damaged."""


class DamagedIndexError(VectorIndexUnavailableError):
    def __init__(self, collection: str, reason: str) -> None:
        self.collection, self.reason = collection, reason
        super().__init__(
            f"The index of the collection {collection!r} is damaged: {reason}. `gircse doctor --rebuild` makes it anew "
            "from the stored documents; other collections go on meanwhile."
        )


class EmbedderUnavailableError(UnavailableError):
    """The embedding server is away, or changed its model a moment ago."""


class EmbedderBusyError(EmbedderUnavailableError):
    """It works, but is busy. Jobs wait as for an unavailable part; searches are answered 429."""

    status = 429


class RerankerUnavailableError(UnavailableError):
    """The re-ranker is away, too slow, or answers what cannot be used. A search then keeps its first ranking."""


class LanguageModelUnavailableError(UnavailableError):
    """The server that words answers is away, too slow, refuses, or answers what cannot be used."""


class LanguageModelBusyError(LanguageModelUnavailableError):
    """It works, but has too much to do."""

    status = 429


class CutOffError(LanguageModelUnavailableError):
    """The text that came before is there."""


class IncompleteDeletionError(UnavailableError):
    """The vector index was asked after a deletion, and something is still there."""


class CatalogUnavailableError(UnavailableError):
    pass


class DamagedCatalogError(CatalogUnavailableError):
    """The database is there, and what it holds cannot be read."""

    @classmethod
    def of(cls, place: str, found: object, *, backup: str = "FILE") -> Self:
        error = cls(
            f"The catalog at {place} is damaged: {found}. Stop all processes of this installation, then "
            f"`gircse restore {backup} --force` puts back the last backup; what is damaged is kept beside it."
        )
        error.place, error.found = place, found
        return error

    place: str = ""
    found: object = ""


class FilesUnavailableError(UnavailableError):
    """The folder of stored files cannot be written or read: the disk is full, read-only or away."""


def is_full_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_translated(folder: Path) -> Iterator[None]:
    """Of writes within the block, whose errors do not say where they were."""
    try:
        yield
    except OSError as error:
        if not is_full_disk(error):
            raise
        raise FilesUnavailableError(full_disk_reason(folder)) from error


def full_disk_reason(place: object) -> str:
    return f"The disk of {place} is full. Free some space on it: jobs that wait go on by themselves then."


class ProviderUnavailableError(UnavailableError):
    """It is away, answers what cannot be used, or does not know this server. The message is for the log."""
