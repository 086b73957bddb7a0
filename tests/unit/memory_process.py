"""Takes in a small and then a long document, and prints the peak of its memory after each, in kB: `HOME MEGABYTES`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from ingest_parts import COLLECTION, IngestParts

from app.edge import EdgeProcess
from app.testing import ToyEmbedder
from app.types.documents import NewDocument
from app.vectors import QdrantVectorIndex
from ingest.readers import ProcessReader, ReadLimits

LINE_CHARACTERS = 10_000
LIMITS = ReadLimits(max_characters=10**9)


def peak_kb() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def submit_parts(parts: IngestParts, uri: str, *, lines: int) -> str:
    """The bytes are made one by one, so that no test holds them all. The id of the document."""

    def content() -> Iterator[bytes]:
        return (f"{number:09} {'x' * (LINE_CHARACTERS - 11)}\n".encode() for number in range(lines))

    digest = hashlib.sha256()
    for line in content():
        digest.update(line)
    parts.blobs.put_parts(digest.hexdigest(), content())
    new = NewDocument(uri, "", "", digest.hexdigest(), lines * LINE_CHARACTERS)
    return parts.catalog.submit(COLLECTION, new)[0].id


def main(home: str, megabytes: str) -> None:
    embedder = ToyEmbedder(dimension=16, is_recording=False)
    with EdgeProcess(Path(home) / "edge") as edge, ProcessReader(limits=LIMITS) as read:
        parts = IngestParts.open(Path(home), QdrantVectorIndex.over_edge(edge))
        parts.add_collection(embedder)
        pipeline = parts.pipeline(embedder, batch_size=64, read=read)
        for uri in ("small.txt", "long.txt"):
            document_id = submit_parts(parts, uri, lines=100 if uri == "small.txt" else 100 * int(megabytes))
            job = parts.catalog.claim("test", lease=timedelta(minutes=10))
            assert job is not None
            pipeline.run(job, heartbeat=lambda _: None)
            print(parts.catalog.document(document_id).chunk_count, peak_kb())


if __name__ == "__main__":
    main(*sys.argv[1:])
