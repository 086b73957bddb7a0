"""The JSON lines of an archive's members. They are validated on import, because an archive may come from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Self, TypeVar
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.documents.library import check_metadata
from app.errors import ArchiveError, InputError
from app.maintenance.archive import CONTRACT_MEMBER, Member
from app.search.judgements import BEST_GRADE, new_lens
from app.search.retrieval import KEYS_OF_EVERY_CHUNK
from app.types.documents import (
    Chunk,
    Collection,
    Document,
    DocumentRecord,
    DocumentState,
    Judgement,
    Lens,
    MetadataValue,
    Point,
    require_text,
)
from app.types.lens_indexes import LABEL_PREFIX

MAX_LINES = 20_000  # of one member, which holds at most 2,000 chunks, or the lenses; each takes kilobytes of memory

R = TypeVar("R", bound=BaseModel)


def _check_text(text: str) -> str:
    return require_text(text, name="text")


def _check_uuid(text: str) -> str:
    if str(UUID(text)) != text:
        raise ValueError("not a UUID in its usual form")
    return text


Text = Annotated[str, AfterValidator(_check_text)]
Id = Annotated[str, AfterValidator(_check_uuid)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Metadata = dict[str, MetadataValue]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]  # PostgreSQL's integer


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ContractRecord(_Record):
    name: Text
    fingerprint: Text
    dimension: Annotated[int, Field(ge=1, le=65_536)]
    document_instruction: Text
    document_steps: Annotated[int, Field(ge=0)]
    chunk_tokens: Annotated[int, Field(ge=1)]
    chunk_overlap: Count
    chunk_context: bool = False  # archives of earlier releases lack this field and the next two
    chunk_structure: bool = False
    vectors_per_chunk: Annotated[int, Field(ge=1, le=64)] = 1

    @classmethod
    def of(cls, collection: Collection) -> Self:
        return cls(**{name: getattr(collection, name) for name in cls.model_fields})

    def collection(self) -> Collection:
        return Collection(**self.model_dump(), active_index="")

    def to_json(self) -> str:
        """JSON without `vectors_per_chunk` if it is 1: earlier releases, which lack the field, can import it."""
        return self.model_dump_json(indent=1, exclude={"vectors_per_chunk"} if self.vectors_per_chunk == 1 else None)


class DocumentLine(_Record):
    id: Id
    uri: Text
    title: Text
    media_type: Text
    content_hash: Hash
    byte_count: Annotated[int, Field(ge=0, le=2**63 - 1)]
    metadata: Metadata
    state: DocumentState
    error: Text | None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    given_title: Text
    given_metadata: Annotated[Metadata, AfterValidator(check_metadata)]

    @classmethod
    def of(cls, record: DocumentRecord) -> Self:
        own = cls.model_fields.keys() - {"given_title", "given_metadata"}
        values = {name: getattr(record.document, name) for name in own}
        return cls(**values, given_title=record.given_title, given_metadata=dict(record.given_metadata))

    def record(self, collection: str) -> DocumentRecord:
        values: dict[str, Any] = {
            name: getattr(self, name) for name in type(self).model_fields if not name.startswith("given_")
        }
        document = Document(**values, collection=collection, chunk_count=0)
        return DocumentRecord(document, self.given_title, self.given_metadata)


class LensLine(_Record):
    name: Text
    query_instruction: Text
    document_instruction: Text | None
    note: Text
    values: tuple[Text, ...] = ()  # archives of earlier releases have none

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.lens()
        return self

    @classmethod
    def of(cls, lens: Lens) -> Self:
        return cls(**{name: getattr(lens, name) for name in cls.model_fields})

    def lens(self) -> Lens:
        return new_lens(
            self.name,
            self.query_instruction,
            document_instruction=self.document_instruction,
            note=self.note,
            values=self.values,
            is_stored=True,
        )


class JudgementLine(_Record):
    document_id: Id
    query: Text
    instruction: Text
    grade: Annotated[int, Field(ge=0, le=BEST_GRADE)]
    judged_by: Text
    judged_at: AwareDatetime

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        return cls(**{name: getattr(judgement, name) for name in cls.model_fields})

    def judgement(self) -> Judgement:
        return Judgement(**self.model_dump())


class Payload(_Record):
    page_content: str
    metadata: dict[str, MetadataValue | None]


class ChunkLine(_Record):
    id: Id
    document_id: Id
    ordinal: Count
    text_hash: Hash
    start: Count
    end: Count
    page: Count | None
    payload: Payload

    @model_validator(mode="after")
    def _fits_payload(self) -> Self:
        if (
            not self.payload.metadata.keys() >= KEYS_OF_EVERY_CHUNK
            or self.payload.metadata["document_id"] != self.document_id
        ):
            raise ValueError("the payload is not of this document")
        return self

    @classmethod
    def of(cls, chunk: Chunk, point: Point) -> Self:
        own = cls.model_fields.keys() - {"payload"}
        # Labels of lens indexes are left out; they can be computed again.
        kept = {key: value for key, value in point.payload.items() if not key.startswith(LABEL_PREFIX)}
        payload = Payload.model_validate(kept)
        return cls(**{name: getattr(chunk, name) for name in own}, payload=payload)

    def chunk(self) -> Chunk:
        return Chunk(**self.model_dump(exclude={"payload"}), text="")


def write_lines(records: Iterable[BaseModel]) -> bytes:
    return b"".join(record.model_dump_json().encode() + b"\n" for record in records)


def read_lines(member: Member, kind: type[R]) -> Iterator[R]:
    lines = member.read().splitlines()
    if len(lines) > MAX_LINES:
        raise ArchiveError(
            f"{member.name} has {len(lines):,} rows; an export writes at most {MAX_LINES:,} in one part."
        )
    for number, line in enumerate(lines, start=1):
        yield _parsed(kind, line, f"Line {number} of {member.name}")


def read_contract(data: bytes) -> ContractRecord:
    return _parsed(ContractRecord, data, CONTRACT_MEMBER)


def _parsed(kind: type[R], data: bytes, where: str) -> R:
    try:
        return kind.model_validate_json(data)
    except (ValidationError, InputError) as error:
        first = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ArchiveError(f"{where} is not what an export writes: {first}. Export the collection again.") from error
