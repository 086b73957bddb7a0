"""Creates and deletes collections; adds, deletes and moves documents by queueing jobs, which workers run."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from app.documents.garbage import discard_file, remove_unneeded
from app.errors import ConflictError, GircseError, InputError, NotFoundError, UnavailableError, UnknownCollectionError
from app.ports.parts import BlobBatch, BlobStore, Embedder, VectorIndex
from app.ports.texts import FormatDetector
from app.search.fingerprints import require_same_model
from app.search.request_checks import check_instruction
from app.search.retrieval import CHUNK_KEYS
from app.types.defaults import CHUNK_OVERLAP, CHUNK_TOKENS, SAMPLE_COLLECTION
from app.types.documents import (
    MAX_KEY_CHARACTERS,
    MAX_METADATA_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    Collection,
    Document,
    DocumentState,
    IndexStatus,
    Job,
    JobPriority,
    Metadata,
    MetadataValue,
    NewDocument,
    Source,
    TextWindow,
    require_short_uri,
    require_text,
)
from app.types.texts import TextLayout
from app.types.uris import canonical_uri

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

CREATION_LEASE = timedelta(minutes=10)
MAX_METADATA_KEYS = 64
_LARGEST_NUMBER = sys.float_info.max  # the index stores other numbers as floats
MAX_SAMPLE_ROWS = 10_000
MAX_WINDOW_CHARACTERS = 50_000

Added = tuple[Document, Job | None]

# `--` separates the public name from the number of its physical collections.
_COLLECTION_NAME = re.compile(r"(?!.*--)[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class SampleRow:
    id: str
    title: str
    text: str
    metadata: Metadata

    @property
    def uri(self) -> str:
        return f"sample://{self.id}"


class Library:
    def __init__(
        self,
        *,
        catalog: SqlCatalog,
        index: VectorIndex,
        blobs: BlobStore,
        embedder: Embedder,
        detect_format: FormatDetector,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._embedder = embedder
        self._detect_format = detect_format
        self._unsettled: set[str] = set()  # hashes of stored files whose rows may be missing in the catalog

    def create_collection(
        self,
        name: str,
        *,
        document_instruction: str | None = None,
        document_steps: int | None = None,
        chunk_tokens: int = CHUNK_TOKENS,
        chunk_overlap: int = CHUNK_OVERLAP,
        chunk_context: bool = True,
        chunk_structure: bool = True,
    ) -> Collection:
        """Create a collection for the model in use. Raises ConflictError if the name exists, InputError if invalid."""
        if self._is_taken(name):
            raise ConflictError(f"There is a collection {name!r} already; choose another name or delete it first.")
        info = self._embedder.info
        if document_instruction is None:
            document_instruction = info.default_document_instruction if document_steps != 0 else ""
        if document_steps is None:
            document_steps = info.default_document_steps
            if document_steps == 0 and document_instruction:  # 0 steps is the base model, which ignores instructions
                document_steps = info.default_query_steps
        collection = Collection(
            name=check_collection_name(name),
            fingerprint=info.fingerprint,
            dimension=info.dimension,
            document_instruction=document_instruction,
            document_steps=document_steps,
            chunk_tokens=chunk_tokens,
            chunk_overlap=chunk_overlap,
            chunk_context=chunk_context,
            chunk_structure=chunk_structure,
            vectors_per_chunk=info.vectors_per_document(document_steps),
            active_index="",
        )
        check_contract(collection, self._embedder)
        collection = replace(collection, active_index=self._catalog.indexes.reserve(name, lease=CREATION_LEASE))
        # Create the index first. After a crash its reservation expires and it is removed; a row without an index would
        # stay.
        create_index(self._index, collection)
        created = self._catalog.create_collection(collection)
        self._index.point_to(name, created.active_index)
        return created

    def ensure_collection(self, name: str) -> Collection:
        """The collection of this name; created with defaults if missing. Raises FingerprintMismatchError."""
        try:
            collection = self._catalog.collection(name)
        except UnknownCollectionError:
            return self.create_collection(name)
        require_same_model(collection, self._embedder)
        return collection

    def delete_collection(self, name: str) -> None:
        """Delete a collection with its points and files. After a crash, or if the index is down, a worker finishes."""
        self._catalog.delete_collection(name)
        self.remove_unneeded()

    def index_status(self, name: str) -> IndexStatus:
        """The state of the collection's index: points, segments, activity of the optimizer."""
        return self._index.condition(self._catalog.collection(name).active_index)

    def optimize_index(self, name: str) -> IndexStatus:
        """Start optimizing the index and return its state at once."""
        self._index.optimize(self._catalog.collection(name).active_index)
        return self.index_status(name)

    def remove_unneeded(self) -> None:
        """Collect garbage, including what deletions before a crash left behind."""
        remove_unneeded(garbage=self._catalog.garbage, index=self._index, blobs=self._blobs)

    def add_document(
        self, collection: str, source: Source, *, priority: JobPriority = JobPriority.INTERACTIVE
    ) -> Added:
        """Store the file and queue its ingestion. The job is None if the identical document already exists."""
        (outcome,) = self.add_documents(collection, [source], priority=priority)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def add_documents(
        self,
        collection: str,
        sources: Sequence[Source],
        *,
        moved_from: Callable[[str], str | None] = lambda _: None,
        priority: JobPriority = JobPriority.BULK,
    ) -> list[Added | GircseError | OSError]:
        """Add many documents; returns a result or error per source, in their order. Streams the files.

        Errors are unsupported or unreadable sources. `moved_from` gives, for a content hash, the id of a document that
        had it under another URI; that document then keeps its id and points under the new URI. Raises UnavailableError
        if a component is unavailable; some documents may have been added before.
        """
        require_same_model(self._catalog.collection(collection), self._embedder)
        self._discard_unsettled()
        outcomes: dict[int, Added | GircseError | OSError] = {}
        missing = dict(enumerate(sources))
        while missing:
            new: dict[int, NewDocument] = {}
            with self._blobs.batch() as batch:
                for number, source in missing.items():
                    try:
                        new[number] = self._stored(source, batch, moved_from)
                    except UnavailableError:
                        raise
                    except (GircseError, OSError) as error:
                        outcomes[number] = error
            try:
                added = self._catalog.submit_many(collection, list(new.values()), priority=priority)
            except GircseError:  # the catalog may be unavailable; the next call checks whether these were added
                self._unsettled.update(each.content_hash for each in new.values())
                raise
            outcomes |= zip(new, added, strict=True)
            # A garbage collection that checked for rows before they were written may have removed the files: add these
            # again.
            missing = {
                number: sources[number] for number, each in new.items() if not self._blobs.has(each.content_hash)
            }
        return [outcomes[number] for number in range(len(sources))]

    def delete_document(self, document_id: str, *, delay: timedelta = timedelta()) -> Job:
        return self._catalog.submit_delete(document_id, delay=delay)

    def move_documents(self, document_ids: Sequence[str], collection: str) -> list[Added]:
        require_same_model(self._catalog.collection(collection), self._embedder)
        return self._catalog.move_documents(document_ids, collection)

    def original_file(self, document: Document) -> Path:
        """The present path of the verified original file. Raises NotFoundError and DamagedFileError."""
        return self._blobs.verified(document.content_hash)

    def text_window(self, document: Document, start: int, end: int) -> TextWindow:
        """Characters [start, end) of a document's text. Raises InputError, or NotFoundError with the reason."""
        if not 0 <= start <= end <= start + MAX_WINDOW_CHARACTERS:
            raise InputError(
                f"One request returns at most {MAX_WINDOW_CHARACTERS:,} characters of a text, counted from 0, not "
                f"{start} to {end}. Request the rest separately."
            )
        try:
            return self._blobs.text_window(document.content_hash, start, end)
        except NotFoundError:
            if document.state is DocumentState.QUEUED:
                raise NotFoundError(f"{document.uri} has no text yet: it is still being ingested.") from None
            if document.state is DocumentState.FAILED:
                raise NotFoundError(f"{document.uri} has no text: {document.error}") from None
            raise

    def layout(self, document: Document, start: int, end: int) -> TextLayout:
        return self._blobs.layout(document.content_hash, start, end)

    def add_sample(self, rows: Iterable[SampleRow]) -> list[Job]:
        """Add the rows (see `sample_rows`) that the sample collection lacks, one document each. Returns the jobs.

        Their priority is BACKGROUND, so that a user's own files do not wait for them.
        """
        self.ensure_collection(SAMPLE_COLLECTION)
        there = self._catalog.documents(SAMPLE_COLLECTION, limit=MAX_SAMPLE_ROWS)
        hashes = {document.uri: document.content_hash for document in there}
        sources = (
            Source(row.uri, row.uri, "text/plain", data=row.text.encode(), title=row.title, metadata=row.metadata)
            for row in rows
        )
        new = [each for each in sources if hashes.get(each.uri) != hashlib.sha256(each.data).hexdigest()]
        jobs = []
        for outcome in self.add_documents(SAMPLE_COLLECTION, new, priority=JobPriority.BACKGROUND):
            if isinstance(outcome, Exception):
                raise outcome
            if outcome[1] is not None:
                jobs.append(outcome[1])
        return jobs

    def _stored(self, source: Source, batch: BlobBatch, moved_from: Callable[[str], str | None]) -> NewDocument:
        """Validate the source, detect its format and store its bytes. Raises InputError, or OSError if unreadable."""
        if not require_text(source.uri, name="uri").strip():
            raise InputError("The document has no URI. Give it one, such as its path or address.")
        uri, title = require_short_uri(canonical_uri(source.uri)), require_text(source.title, name="title")
        if len(title) > MAX_TITLE_CHARACTERS:
            raise InputError(f"The title has {len(title):,} characters; at most {MAX_TITLE_CHARACTERS:,} are kept.")
        declared, metadata = require_text(source.media_type, name="media type"), check_metadata(source.metadata)
        _check_lengths(metadata)
        with source.opened() as file:
            media_type = self._detect_format(file, uri=uri, declared=declared)
            stored = batch.put_file(file)
        return NewDocument(
            uri=uri,
            title=title,
            media_type=media_type,
            content_hash=stored.content_hash,
            byte_count=stored.byte_count,
            metadata=metadata,
            moved_from=moved_from(stored.content_hash),
            allowance=source.allowance,
        )

    def _discard_unsettled(self) -> None:
        while self._unsettled:
            content_hash = self._unsettled.pop()
            try:
                discard_file(self._blobs, content_hash, garbage=self._catalog.garbage)
            except UnavailableError:
                self._unsettled.add(content_hash)
                raise

    def _is_taken(self, name: str) -> bool:
        try:
            self._catalog.collection(name)
        except UnknownCollectionError:
            return False
        return True


def create_index(index: VectorIndex, collection: Collection) -> None:
    """Create the active index of the collection with the dimension and vectors per point of its contract."""
    index.create(
        collection.active_index, dimension=collection.dimension, vectors_per_point=collection.vectors_per_chunk
    )


def check_contract(collection: Collection, embedder: Embedder) -> None:
    """Raise InputError unless the model in use can embed documents with these settings. Embeds one text to find out."""
    tokens, overlap = collection.chunk_tokens, collection.chunk_overlap
    check_instruction(collection.document_instruction, name="document instruction")
    least, most = embedder.info.min_steps, embedder.info.max_steps
    if not least <= collection.document_steps <= most:
        raise InputError(f"document_steps must be {least} to {most}, not {collection.document_steps}.")
    if collection.document_steps == 0 and collection.document_instruction:
        raise InputError(
            "With 0 steps documents get the vectors of the base model, which ignores instructions. Leave the document "
            "instruction empty, or use at least one step."
        )
    if not 16 <= tokens <= 8192:
        raise InputError(f"chunk_tokens must be 16 to 8192, not {tokens}.")
    if not 0 <= overlap <= tokens // 2:
        raise InputError(f"chunk_overlap must be 0 to {tokens // 2}, half of chunk_tokens, not {overlap}.")
    # An instruction that is too long for the model would fail every document later.
    embedder.embed_documents(["a"], instruction=collection.document_instruction, steps=collection.document_steps)


def check_collection_name(name: str) -> str:
    """`name`, if it is valid. Raises InputError."""
    if not _COLLECTION_NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a collection: use 1 to 63 of a-z, 0-9, - and _ (no --), a letter or digit first."
        )
    return name


def check_metadata(metadata: Mapping[str, MetadataValue]) -> Metadata:
    """`metadata` with strings normalised to NFC. Raises InputError for values that catalog or index cannot store."""
    if len(metadata) > MAX_METADATA_KEYS:
        raise InputError(f"At most {MAX_METADATA_KEYS} metadata keys can be kept, not {len(metadata)}.")
    for key, value in metadata.items():
        if not require_text(key, name="metadata key").strip():
            raise InputError("A metadata key is empty.")
        if key in CHUNK_KEYS:
            raise InputError(f"The metadata key {key!r} is reserved. Choose another name.")
        if isinstance(value, str):
            require_text(value, name=f"metadata value of {key!r}")
        elif not abs(value) <= _LARGEST_NUMBER:  # also of NaN
            raise InputError(f"The metadata value of {key!r} must be a finite number of at most {_LARGEST_NUMBER:.1e}.")
    return {key: normalize("NFC", value) if isinstance(value, str) else value for key, value in metadata.items()}


def _check_lengths(metadata: Metadata) -> None:
    """Raises InputError. Not checked in archives of earlier releases, which kept longer values."""
    for key in metadata:
        if len(key) > MAX_KEY_CHARACTERS:
            raise InputError(f"The metadata key {key[:80]!r}… is longer than {MAX_KEY_CHARACTERS} characters.")
    characters = sum(len(key) + len(str(value)) for key, value in metadata.items())
    if characters > MAX_METADATA_CHARACTERS:
        raise InputError(
            f"The metadata has {characters:,} characters; at most {MAX_METADATA_CHARACTERS:,} can be kept, since every "
            "passage is stored with them. Move long texts into the document."
        )


def sample_rows() -> Iterator[SampleRow]:
    """The rows of the sample library in the wheel."""
    with resources.files("sample").joinpath("library.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield SampleRow(id=row["id"], title=row["title"], text=row["text"], metadata=row["metadata"])
