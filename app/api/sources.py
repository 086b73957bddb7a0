"""Sources that come again over HTTP: have them fetched on a schedule, and see how that goes."""

from __future__ import annotations

from datetime import datetime, timedelta

from fastapi import APIRouter
from pydantic import Field

from app.api.base_schemas import Answer, Posted
from app.api.paging import PAGE_HEADERS, Page
from app.ports.sources import RecurringSources
from app.types.sources import (
    LONGEST_INTERVAL,
    MAX_PATTERNS,
    SHORTEST_INTERVAL,
    RecurringSource,
    SourceKind,
    SourceOptions,
)

_NOT_ITS_OWN = ("every_minutes", "patterns", "branch", "credentials")
_LEAST, _MOST = SHORTEST_INTERVAL.total_seconds() / 60, LONGEST_INTERVAL.total_seconds() / 60


class NewRecurringSource(Posted):
    kind: SourceKind = Field(
        description="A page; the pages that a feed links to, or those of a sitemap; files of a git repository; "
        "messages of a mailbox; objects of an S3-compatible bucket."
    )
    address: str = Field(max_length=2_000, examples=["https://example.org/feed.xml"])
    every_minutes: float = Field(default=1_440, ge=_LEAST, le=_MOST, description="How often it is looked at.")
    removes: bool = Field(default=False, description="Delete the documents of what vanished.")
    patterns: list[str] = Field(
        default_factory=list,
        max_length=MAX_PATTERNS,
        examples=[["docs/", "*.md"]],
        description="Of git and s3: which paths, in the syntax of .gitignore; of imap: which folders. None: all that "
        "can be read, and of imap INBOX.",
    )
    branch: str = Field(default="", max_length=200, description="Of git: a branch or tag; else the repository's own.")
    credentials: str = Field(
        default="",
        max_length=100,
        description="Of git, imap and s3: the name of a file in GIRCSE_CREDENTIALS_FOLDER.",
    )


class RecurringSourceAnswer(Answer):
    id: str
    collection: str
    kind: SourceKind
    address: str
    every_minutes: float
    removes: bool
    patterns: list[str]
    branch: str
    credentials: str = Field(description="Their name.")
    next_at: datetime
    is_running: bool
    last_at: datetime | None
    error: str | None = Field(description="Why the last round failed, or its first item.")
    items: int = Field(description="That are documents now.")
    changed: int = Field(description="In the last round; so are removed and failed.")
    removed: int
    failed: int

    @classmethod
    def of(cls, source: RecurringSource) -> RecurringSourceAnswer:
        options = source.options
        own = {name: getattr(source, name) for name in cls.model_fields if name not in _NOT_ITS_OWN}
        return cls(
            **own,
            every_minutes=source.every.total_seconds() / 60,
            patterns=list(options.patterns),
            branch=options.branch,
            credentials=options.credentials,
        )


def source_routes(sources: RecurringSources) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["sources"])

    @routes.get("/collections/{name}/sources", response_model=list[RecurringSourceAnswer], responses=PAGE_HEADERS)
    def list_recurring_sources(name: str, page: Page) -> list[RecurringSourceAnswer]:
        """Sources of a collection that come again, and how their last rounds went."""
        return [RecurringSourceAnswer.of(each) for each in page.of(sources.sources(name))]

    @routes.post("/collections/{name}/sources")
    def add_source(name: str, new: NewRecurringSource) -> RecurringSourceAnswer:
        """Adds a source, or changes the one of this address. It is due at once."""
        every = timedelta(minutes=new.every_minutes)
        options = SourceOptions(tuple(new.patterns), new.branch, new.credentials)
        return RecurringSourceAnswer.of(
            sources.add(name, new.kind, new.address, every=every, removes=new.removes, options=options)
        )

    @routes.get("/source-credentials", responses=PAGE_HEADERS)
    def list_source_credentials(page: Page) -> list[str]:
        """Names of the credentials that sources of the caller may use."""
        return page.of(sources.credentials())

    @routes.post("/sources/{source_id}/run", status_code=202)
    def run_source(source_id: str) -> RecurringSourceAnswer:
        """It is due now."""
        return RecurringSourceAnswer.of(sources.hurry(source_id))

    @routes.delete("/sources/{source_id}", status_code=204)
    def delete_source(source_id: str) -> None:
        """It does not come again; its documents stay."""
        sources.delete(source_id)

    return routes
