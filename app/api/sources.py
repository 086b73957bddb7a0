"""Sources over HTTP: feeds, sitemaps, repositories, mailboxes and buckets that are synced on a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta

from fastapi import APIRouter
from pydantic import Field

from app.api.base_schemas import RequestBody, ResponseBody
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


class NewRecurringSource(RequestBody):
    kind: SourceKind = Field(
        description="page: one page. feed: the pages that it links to. sitemap: its pages. git: files of a repository. "
        "imap: messages of a mailbox. s3: objects of an S3-compatible bucket."
    )
    address: str = Field(max_length=2_000, examples=["https://example.org/feed.xml"])
    every_minutes: float = Field(default=1_440, ge=_LEAST, le=_MOST, description="Sync interval in minutes.")
    removes: bool = Field(default=False, description="Delete documents whose item disappeared from the source.")
    patterns: list[str] = Field(
        default_factory=list,
        max_length=MAX_PATTERNS,
        examples=[["docs/", "*.md"]],
        description="git and s3: paths to include, in .gitignore syntax. imap: folders. Empty: all readable files; "
        "for imap INBOX.",
    )
    branch: str = Field(default="", max_length=200, description="git: branch or tag. Empty: the repository's default.")
    credentials: str = Field(
        default="",
        max_length=100,
        description="git, imap and s3: name of a file in GIRCSE_CREDENTIALS_FOLDER.",
    )


class RecurringSourceAnswer(ResponseBody):
    id: str
    collection: str
    kind: SourceKind
    address: str
    every_minutes: float
    removes: bool
    patterns: list[str]
    branch: str
    credentials: str = Field(description="Name of the credentials file.")
    next_at: datetime
    is_running: bool
    last_at: datetime | None
    error: str | None = Field(description="Why the last sync failed, or why its first failed item did.")
    items: int = Field(description="Items that are documents now.")
    changed: int = Field(description="Items that changed in the last sync. `removed` and `failed` count it, too.")
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
        """Lists the scheduled sources of a collection with the results of their last sync."""
        return [RecurringSourceAnswer.of(source) for source in page.of(sources.sources(name))]

    @routes.post("/collections/{name}/sources")
    def add_source(name: str, new: NewRecurringSource) -> RecurringSourceAnswer:
        """Adds a source, or changes the source with this address. A running worker syncs it at once."""
        every = timedelta(minutes=new.every_minutes)
        options = SourceOptions(tuple(new.patterns), new.branch, new.credentials)
        return RecurringSourceAnswer.of(
            sources.add(name, new.kind, new.address, every=every, removes=new.removes, options=options)
        )

    @routes.get("/source-credentials", responses=PAGE_HEADERS)
    def list_source_credentials(page: Page) -> list[str]:
        """Lists the names of credentials that your sources may use."""
        return page.of(sources.credentials())

    @routes.post("/sources/{source_id}/run", status_code=202)
    def run_source(source_id: str) -> RecurringSourceAnswer:
        """Schedules the source's next sync for now."""
        return RecurringSourceAnswer.of(sources.hurry(source_id))

    @routes.delete("/sources/{source_id}", status_code=204)
    def delete_source(source_id: str) -> None:
        """Deletes a source. Its documents are kept."""
        sources.delete(source_id)

    return routes
