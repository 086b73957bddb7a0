"""Every error that crosses a folder border.

GircseError
├── InputError                 the caller's input is invalid                          422
│   ├── EmptyQueryError
│   ├── DocumentError          a document cannot be read; its row stores the reason
│   │   ├── ServerLimitError   this server, as it is set up and busy, cannot read it
│   │   │   └── ReadingLimitError  reading took too much time or memory
│   │   ├── VanishedError      the document no longer exists at its address
│   │   └── SyncEndedError     this sync can fetch nothing more of the source
│   ├── FilterError
│   └── ArchiveError
├── NotFoundError              something named does not exist                         404
│   ├── UnknownCollectionError
│   ├── UnknownDocumentError
│   ├── UnknownJobError
│   ├── UnknownLensError
│   ├── UnknownUserError
│   └── DamagedFileError       a stored file is missing or altered                   500
├── ConflictError              the request contradicts the current state              409
│   ├── FingerprintMismatchError
│   ├── LeaseLostError         another worker holds the job now
│   ├── CollectionPausedError  the worker must give the job back
│   ├── StandingChangedError   the collection's standing searches changed meanwhile
│   └── CatalogTooNewError
├── LoginRequiredError         the request is not authenticated                       401
│   └── UntrustedSignInError   a response of an OpenID provider failed verification
├── ForbiddenError             the caller may not do this                             403
├── ThrottledError             too many attempts; retry later                         429
│   └── RequestQuotaError      the user's requests per minute are used up
├── DeliveryError              an alert could not be delivered; the user sees why     502
├── QuotaExceededError         the user's storage quota is used up                    413
└── UnavailableError           a part does not respond; retry                         503
    ├── VectorIndexUnavailableError
    │   ├── EngineFaultError   the engine responds with an internal error
    │   └── DamagedIndexError  an index must be rebuilt; a retry does not help
    ├── EmbedderUnavailableError
    │   └── EmbedderBusyError  overloaded; retry later                                 429
    ├── RerankerUnavailableError
    ├── LanguageModelUnavailableError  the server that generates answers
    │   ├── LanguageModelBusyError  overloaded; retry later                            429
    │   └── CutOffError        the generated text ended too soon
    ├── IncompleteDeletionError
    ├── CatalogUnavailableError
    │   └── DamagedCatalogError  restore a backup; a retry does not help
    ├── FilesUnavailableError
    └── ProviderUnavailableError  an OpenID provider
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Self


class GircseError(Exception):
    """Root. `status` is the HTTP status of the API's response."""

    status = 500

    @property
    def lasting_text(self) -> str:
        """The message as it may be stored: others than the present caller may read it later."""
        return str(self)


class InputError(GircseError, ValueError):
    status = 422


class EmptyQueryError(InputError):
    pass


class DocumentError(InputError):
    """A document cannot be read. The person who added it sees the message."""


class ServerLimitError(DocumentError):
    """The same file may be read on a less busy machine, with another setting, or with an extra installed."""


class ReadingLimitError(ServerLimitError):
    """Reading took more time or memory than allowed."""


class VanishedError(DocumentError):
    """The document to fetch does not exist."""


class SyncEndedError(DocumentError):
    """The source cannot be fetched further now. The next sync fetches the remaining items."""


class FilterError(InputError):
    pass


class ArchiveError(InputError):
    """A file is not an archive of a collection, is damaged, or has unsafe content."""


class NotFoundError(GircseError, LookupError):
    status = 404


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most similar in any case; None if no ratio of `difflib` reaches `cutoff`."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


class UnknownCollectionError(NotFoundError):
    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        there = f"There are: {', '.join(sorted(known))}." if known else "There are no collections yet."
        near = nearest_name(name, known)
        super().__init__(
            f"No collection named {name!r}. Did you mean {near!r}? {there}"
            if near
            else f"No collection named {name!r}. {there} `gircse ingest PATH --collection {name}` creates it."
        )

    @property
    def lasting_text(self) -> str:
        """Leaves out the names of other collections: who reads the stored message may not see all of them."""
        return _deleted_reason(self.name)


def _deleted_reason(collection: str) -> str:
    return f"The collection {collection!r} was deleted meanwhile."


class UnknownSavedSearchError(NotFoundError):
    def __init__(self, name: str, known: list[str]) -> None:
        near = nearest_name(name, known)
        super().__init__(
            f"You have no saved search {name!r}. Did you mean {near!r}?"
            if near
            else f"You have no saved search {name!r}. `gircse saved list` lists them."
        )


class UnknownDocumentError(NotFoundError):
    @classmethod
    def of(cls, document_id: str) -> Self:
        return cls(f"No document has the id {document_id!r}. `gircse documents list` lists them.")


class UnknownJobError(NotFoundError):
    @classmethod
    def of(cls, job_id: str) -> Self:
        return cls(f"No job has the id {job_id!r}. `gircse jobs list` lists them.")


class UnknownLensError(NotFoundError):
    def __init__(self, name: str, known: list[str]) -> None:
        there = f"There are: {', '.join(known)}." if known else "There are no lenses yet."
        near = nearest_name(name, known)
        super().__init__(
            f"No lens named {name!r}. Did you mean {near!r}? {there}"
            if near
            else f"No lens named {name!r}. {there} `gircse lenses save NAME -i INSTRUCTION` creates one."
        )


class UnknownUserError(NotFoundError):
    @classmethod
    def of(cls, name: str) -> Self:
        return cls(f"No user is named {name!r}. `gircse users list` lists them.")


class DamagedFileError(NotFoundError):
    """The file stored under this hash is missing, truncated or altered."""

    status = 500


class LoginRequiredError(GircseError):
    status = 401


class UntrustedSignInError(LoginRequiredError):
    """The message is for the log only: it may help a forger."""


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
    """An alert or webhook could not be delivered. is_final: a retry would not help."""

    status = 502

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class QuotaExceededError(GircseError):
    status = 413


class ConflictError(GircseError):
    status = 409


class StandingChangedError(ConflictError):
    """The standing searches changed while new chunks were matched. Nothing was stored; match again."""


class FingerprintMismatchError(ConflictError):
    """A collection was written by another model, document instruction or number of document steps."""


class LeaseLostError(ConflictError):
    """The fencing token is outdated: another worker has claimed the job."""


class CollectionPausedError(ConflictError):
    """The job's collection was paused while the job was running."""


class CatalogTooNewError(ConflictError):
    """The database was written by a newer release."""


class UnavailableError(GircseError):
    status = 503


class ExhaustedError(UnavailableError):
    """The system grants this process no further thread or process."""


class VectorIndexUnavailableError(UnavailableError):
    pass


class NoAnswerError(VectorIndexUnavailableError):
    """The engine hangs, has ended, or cannot be reached."""


class UnansweredWriteError(NoAnswerError):
    """The engine answered until this write of a document, which may be the cause."""


class EngineFaultError(VectorIndexUnavailableError):
    """The engine responds with an internal error, temporarily or because its stored data is damaged."""


MISSING_INDEX = "missing from the vector index"


class DamagedIndexError(VectorIndexUnavailableError):
    def __init__(self, collection: str, reason: str) -> None:
        """reason: `MISSING_INDEX` if there is no such index."""
        self.collection, self.reason = collection, reason
        super().__init__(
            f"The index of the collection {collection!r} is missing from the vector index. `gircse doctor --rebuild` "
            "rebuilds it from the stored documents; other collections keep working."
            if reason == MISSING_INDEX
            else f"The index of the collection {collection!r} is damaged: {reason}. `gircse doctor --rebuild` rebuilds "
            "it from the stored documents; other collections keep working."
        )


class EmbedderUnavailableError(UnavailableError):
    """The embedding server does not respond, or has just changed its model."""


class EmbedderBusyError(EmbedderUnavailableError):
    """The embedding server works but is overloaded. Jobs wait and retry; searches get status 429."""

    status = 429


class RerankerUnavailableError(UnavailableError):
    """The re-ranker does not respond, is too slow, or sends an invalid response. Searches keep their first ranking."""


class LanguageModelUnavailableError(UnavailableError):
    """The server that generates answers does not respond, is too slow, refuses, or sends an invalid response."""


class LanguageModelBusyError(LanguageModelUnavailableError):
    """The server of the language model works but is overloaded."""

    status = 429


class CutOffError(LanguageModelUnavailableError):
    """The generated text broke off. The part before it was delivered and stays usable."""


class IncompleteDeletionError(UnavailableError):
    """A check after a deletion still found points in the vector index."""


class CatalogUnavailableError(UnavailableError):
    pass


class DamagedCatalogError(CatalogUnavailableError):
    """The database exists but its content cannot be read."""

    @classmethod
    def of(cls, place: str, found: object, *, backup: str = "FILE") -> Self:
        error = cls(
            f"The catalog at {place} is damaged: {found}. Stop all processes of this installation, then run "
            f"`gircse restore {backup} --force` to restore the last backup; the damaged catalog is kept beside it."
        )
        error.place, error.found = place, found
        return error

    place: str = ""
    found: object = ""


class FilesUnavailableError(UnavailableError):
    """The folder of stored files cannot be read or written: the disk is full, read-only or missing."""


def is_full_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_translated(folder: Path) -> Iterator[None]:
    """Translates a full disk during writes inside the block to FilesUnavailableError. `folder` is for the message,
    since the OSError need not name a path."""
    try:
        yield
    except OSError as error:
        if not is_full_disk(error):
            raise
        raise FilesUnavailableError(full_disk_reason(folder)) from error


def full_disk_reason(place: object) -> str:
    return f"The disk of {place} is full. Free some space; waiting jobs then continue by themselves."


def is_exhausted(error: BaseException) -> bool:
    """Whether the system refused to start a thread or a process, which Python reports by these two errors."""
    return isinstance(error, BlockingIOError) or (
        isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    )


class ProviderUnavailableError(UnavailableError):
    """An OpenID provider does not respond, sends an invalid response, or does not know this server. The message is for
    the log only."""


# For users who do not run the service. The messages of these errors name its addresses and paths.
_USER_REASONS = {
    CatalogUnavailableError: "The catalog does not answer at present. Try again soon; the log of the service has the "
    "reason.",
    DamagedCatalogError: "The catalog is damaged. The log of the service says how to restore it.",
    FilesUnavailableError: "The stored files cannot be used at present. Try again soon; the log of the service has the "
    "reason.",
    ExhaustedError: "The server is at the limit of its system. Try again soon; the log of the service has the reason.",
    EmbedderUnavailableError: "The embedding server does not answer at present. Try again soon; the log of the service "
    "has the reason.",
    EmbedderBusyError: "The embedding server is overloaded. Try again soon.",
    RerankerUnavailableError: "The re-ranker does not answer at present. The log of the service has the reason.",
    EngineFaultError: "The vector index fails at present. Try again soon; the log of the service has the reason.",
    DamagedFileError: "A stored file is damaged. The log of the service names it.",
}


def message_for_users(error: GircseError) -> str:
    """The message without addresses and paths of the service."""
    kinds = (kind for kind in type(error).__mro__ if kind in _USER_REASONS)
    kind = next(kinds, None)
    return str(error) if kind is None else _USER_REASONS[kind]
