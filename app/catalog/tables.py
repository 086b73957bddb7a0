"""The tables of the catalog, with conversion of rows to the values of app.types.documents."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    DateTime,
    Dialect,
    Enum,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    bindparam,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.types.documents import (
    Chunk,
    Collection,
    Document,
    DocumentState,
    GarbageKind,
    IndexRole,
    Job,
    JobKind,
    JobPriority,
    JobState,
    Judgement,
    Lens,
)

OPEN_STATES = (JobState.QUEUED, JobState.FAILED, JobState.RUNNING)
WAITING_STATES = (JobState.QUEUED, JobState.FAILED)


class UtcDateTime(TypeDecorator[datetime]):
    """A time with a zone. SQLite has no time zones, so the value is stored as UTC and gets the zone back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"Cannot store a time without a zone: {value!r}. Use datetime.now(UTC).")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class StorableText(TypeDecorator[str]):
    """Text from file names and broken documents: escapes lone surrogates and NUL, which PostgreSQL rejects."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """The text as a column of `StorableText` returns it."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def enum_column(values: type[StrEnum]) -> Enum:
    return Enum(values, native_enum=False, length=16, values_callable=lambda e: [member.value for member in e])


class Table(DeclarativeBase):
    # Fixed constraint names, so that later migrations can drop them on either database.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        datetime: UtcDateTime(),
        str: StorableText(),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
    }


class CollectionRow(Table):
    """The contract columns describe the active index."""

    __tablename__ = "collection"

    name: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    dimension: Mapped[int]
    document_instruction: Mapped[str]
    document_steps: Mapped[int]
    chunk_tokens: Mapped[int]
    chunk_overlap: Mapped[int]
    active_index: Mapped[str]
    created_at: Mapped[datetime]
    is_paused: Mapped[bool] = mapped_column(default=False, server_default=false())
    chunk_context: Mapped[bool] = mapped_column(default=False, server_default=false())
    chunk_structure: Mapped[bool] = mapped_column(default=False, server_default=false())
    vectors_per_chunk: Mapped[int] = mapped_column(default=1, server_default="1")
    # changes with the standing searches of the collection
    standing_version: Mapped[int] = mapped_column(default=0, server_default="0")

    def values(self) -> dict[str, Any]:
        """The fields of a `Collection`."""
        return {field.name: getattr(self, field.name) for field in fields(Collection)}


class StandbyIndexRow(Table):
    """A physical index beside the active one, with the contract of its vectors."""

    __tablename__ = "standby_index"
    __table_args__ = (UniqueConstraint("collection", "role"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"))
    role: Mapped[IndexRole] = mapped_column(enum_column(IndexRole))
    fingerprint: Mapped[str]
    dimension: Mapped[int]
    document_instruction: Mapped[str]
    document_steps: Mapped[int]
    chunk_tokens: Mapped[int]
    chunk_overlap: Mapped[int]
    chunk_context: Mapped[bool] = mapped_column(default=False, server_default=false())
    chunk_structure: Mapped[bool] = mapped_column(default=False, server_default=false())
    vectors_per_chunk: Mapped[int] = mapped_column(default=1, server_default="1")
    created_at: Mapped[datetime]


class IndexNumberRow(Table):
    """The last number used in a physical index name. It outlives the collection, so that no number is used twice."""

    __tablename__ = "index_number"

    collection: Mapped[str] = mapped_column(primary_key=True)
    last: Mapped[int]


class GarbageRow(Table):
    """A thing outside the catalog to remove, due at `due_at`."""

    __tablename__ = "removal"

    kind: Mapped[GarbageKind] = mapped_column(enum_column(GarbageKind), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(index=True)


class DocumentRow(Table):
    """A document. `given_*` is what the user submitted; `title` and `metadata` also hold what the parser found."""

    __tablename__ = "document"
    __table_args__ = (
        UniqueConstraint("collection", "uri"),
        Index("ix_document_created_at_id", "created_at", "id"),
        Index("ix_document_content_hash", "content_hash"),
        Index("ix_document_added_by_byte_count", "added_by", "byte_count"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"))
    uri: Mapped[str]
    title: Mapped[str]
    given_title: Mapped[str]
    media_type: Mapped[str]
    content_hash: Mapped[str] = mapped_column(String(64))
    byte_count: Mapped[int] = mapped_column(BigInteger)
    document_metadata: Mapped[dict[str, Any]] = mapped_column("metadata")
    given_metadata: Mapped[dict[str, Any]]
    state: Mapped[DocumentState] = mapped_column(enum_column(DocumentState))
    error: Mapped[str | None]
    chunk_count: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    revision: Mapped[int] = mapped_column(default=1, server_default="1")
    added_by: Mapped[str | None] = mapped_column(String(64))  # the user whose quota counts its bytes

    def as_document(self) -> Document:
        return Document(
            id=self.id,
            collection=self.collection,
            uri=self.uri,
            title=self.title,
            media_type=self.media_type,
            content_hash=self.content_hash,
            byte_count=self.byte_count,
            metadata=self.document_metadata,
            state=self.state,
            error=self.error,
            chunk_count=self.chunk_count,
            created_at=self.created_at,
            updated_at=self.updated_at,
            revision=self.revision,
        )


class IndexedDocumentRow(Table):
    """The revision of a document that a physical index holds."""

    __tablename__ = "indexed_document"

    document_id: Mapped[str] = mapped_column(ForeignKey("document.id", ondelete="CASCADE"), primary_key=True)
    index_name: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int]


class ChunkRow(Table):
    """A chunk in one physical index, not necessarily the active one; `id` is also the id of the point."""

    __tablename__ = "chunk"
    __table_args__ = (UniqueConstraint("document_id", "index_name", "ordinal"),)

    index_name: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("document.id", ondelete="CASCADE"))
    ordinal: Mapped[int]
    text_hash: Mapped[str] = mapped_column(String(64))
    start: Mapped[int]
    end: Mapped[int]
    page: Mapped[int | None]

    def as_chunk(self) -> Chunk:
        return Chunk(
            id=self.id,
            document_id=self.document_id,
            ordinal=self.ordinal,
            text="",
            text_hash=self.text_hash,
            start=self.start,
            end=self.end,
            page=self.page,
        )


class JobRow(Table):
    """A job of a document or a lens index. `document_id` is no foreign key, because a deletion job outlives its
    document.

    A lease outlives cancellation: until its worker releases it or it expires, no other job of the document starts.
    `claimed_at` is the time of the latest claim; the maximum per collection decides whose turn it is.
    """

    __tablename__ = "job"
    __table_args__ = (Index("ix_job_collection_claimed_at", "collection", "claimed_at"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    kind: Mapped[JobKind] = mapped_column(enum_column(JobKind))
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"))
    document_id: Mapped[str] = mapped_column(String(36), index=True)
    state: Mapped[JobState] = mapped_column(enum_column(JobState))
    attempts: Mapped[int] = mapped_column(default=0)
    pauses: Mapped[int] = mapped_column(default=0)  # times it had to wait for an unavailable component
    progress: Mapped[float] = mapped_column(default=0.0)
    error: Mapped[str | None]
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    fencing_token: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(index=True)
    finished_at: Mapped[datetime | None]
    priority: Mapped[JobPriority] = mapped_column(enum_column(JobPriority), server_default=JobPriority.BULK.value)
    claimed_at: Mapped[datetime | None]
    # Why the last attempt failed may pass: ServerLimitError.
    may_succeed: Mapped[bool] = mapped_column("hit_limit", server_default=false())

    def as_job(self) -> Job:
        return Job(
            id=self.id,
            kind=self.kind,
            collection=self.collection,
            document_id=self.document_id,
            state=self.state,
            attempts=self.attempts,
            progress=self.progress,
            error=self.error,
            lease_owner=self.lease_owner,
            lease_until=self.lease_until,
            fencing_token=self.fencing_token,
            not_before=self.not_before,
            created_at=self.created_at,
            finished_at=self.finished_at,
            priority=self.priority,
            pauses=self.pauses,
            may_succeed=self.may_succeed,
        )


def _is_in(name: str, states: tuple[JobState, ...]) -> ColumnElement[bool]:
    # Literals: SQLite uses a partial index only if it sees the query's values while planning.
    return JobRow.state.in_(bindparam(name, states, expanding=True, literal_execute=True))


is_open = _is_in("open_states", OPEN_STATES)
is_waiting = _is_in("waiting_states", WAITING_STATES)
is_running = _is_in("running_states", (JobState.RUNNING,))
Index("uq_job_open_document", JobRow.document_id, unique=True, sqlite_where=is_open, postgresql_where=is_open)
Index(
    "ix_job_due",
    JobRow.collection,
    JobRow.priority,
    JobRow.not_before,
    JobRow.created_at,
    JobRow.id,
    sqlite_where=is_waiting,
    postgresql_where=is_waiting,
)
Index("ix_job_lease", JobRow.lease_until, sqlite_where=is_running, postgresql_where=is_running)


class LensRow(Table):
    """A named, saved instruction."""

    __tablename__ = "lens"

    name: Mapped[str] = mapped_column(primary_key=True)
    query_instruction: Mapped[str]
    document_instruction: Mapped[str | None]
    note: Mapped[str]
    created_at: Mapped[datetime]
    values_json: Mapped[str] = mapped_column(Text, server_default="[]")

    def as_lens(self) -> Lens:
        values = tuple(json.loads(self.values_json))
        return Lens(self.name, self.query_instruction, self.document_instruction, self.note, values)


class LensIndexRow(Table):
    """A lens's values, and where the chunks of a collection carry their labels.

    `places_json` lists every place, `index/field`, that may hold its labels.
    """

    __tablename__ = "lens_index"
    __table_args__ = (UniqueConstraint("collection", "lens"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"))
    lens: Mapped[str]
    values_json: Mapped[str] = mapped_column(Text)
    edition: Mapped[int] = mapped_column(default=1)
    revision: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime]
    built_index: Mapped[str] = mapped_column(default="")
    built_field: Mapped[str] = mapped_column(default="")
    built_at: Mapped[datetime | None]
    chunks: Mapped[int] = mapped_column(default=0)
    seconds: Mapped[float] = mapped_column(default=0.0)
    places_json: Mapped[str] = mapped_column(Text, default="[]")


class JudgementRow(Table):
    """The id is a hash of document, query, instruction and person, so each combination has one judgement at most."""

    __tablename__ = "judgement"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    query: Mapped[str]
    instruction: Mapped[str]
    document_id: Mapped[str] = mapped_column(ForeignKey("document.id", ondelete="CASCADE"), index=True)
    grade: Mapped[int]
    judged_by: Mapped[str]
    judged_at: Mapped[datetime]

    def as_judgement(self) -> Judgement:
        return Judgement(self.document_id, self.query, self.instruction, self.grade, self.judged_by, self.judged_at)


class AnswerRow(Table):
    """An idempotency record: the stored answer to a request. No status: the request is still in progress."""

    __tablename__ = "kept_answer"

    caller: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))  # of the request
    status: Mapped[int | None]
    body: Mapped[str] = mapped_column(default="", server_default="")
    until: Mapped[datetime] = mapped_column(index=True)
