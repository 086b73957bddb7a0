"""How long facets of 100,000 documents take, on SQLite and, given a URL of an empty database, on PostgreSQL.

python -m benchmarks.facets [--documents 100000] [--database-url postgresql://…]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy import insert

from app.catalog import SqlCatalog, connect, upgrade
from app.catalog.tables import DocumentRow
from app.types.documents import Collection, DocumentState

COLLECTION = Collection("library", "model", 3, "", 5, 200, 30, "library--1")
FILTERS: tuple[dict[str, str], ...] = ({}, {"kind": "kind 1"}, {"kind": "kind 1", "year": "1999"})
REPEATS = 5
_ROWS = 5_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--documents", type=int, default=100_000)
    arguments.add_argument("--database-url")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.database_url or f"sqlite:///{Path(folder) / 'catalog.db'}"
        engine = connect(url)
        upgrade(engine)
        catalog = SqlCatalog(engine)
        catalog.create_collection(COLLECTION)
        choice = random.Random(7)
        for first in range(0, given.documents, _ROWS):
            with engine.begin() as connection:
                rows = [document_row(number, choice) for number in range(first, min(first + _ROWS, given.documents))]
                connection.execute(insert(DocumentRow.__table__), rows)
        for filters in FILTERS:
            times = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                facets = catalog.facets("library", filters)
                times.append(time.perf_counter() - began)
            shown = {key: len(values) for key, values in facets.items()}
            print(f"{engine.dialect.name} {filters}: {statistics.median(times) * 1000:,.0f} ms, values {shown}")
        engine.dispose()


def document_row(number: int, choice: random.Random) -> dict[str, object]:
    """Six keys of metadata: two of few values, two of hundreds, two of a value per document."""
    metadata = {
        "kind": f"kind {min(int(choice.expovariate(0.5)), 11)}",
        "language": choice.choice(("en", "de", "fr")),
        "year": 1900 + number % 125,
        "author": f"Author {choice.randrange(800)}",
        "source": f"https://example.org/{number}",
        "bytes": choice.randrange(10_000_000),
    }
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    return {
        "id": str(UUID(int=number)),
        "collection": COLLECTION.name,
        "uri": f"file:///{number}.txt",
        "title": f"Document {number}",
        "given_title": "",
        "media_type": "text/plain",
        "content_hash": f"{number:064x}",
        "byte_count": 1000,
        "metadata": metadata,
        "given_metadata": {},
        "state": DocumentState.READY,
        "error": None,
        "chunk_count": 3,
        "created_at": now,
        "updated_at": now,
        "revision": 1,
    }


if __name__ == "__main__":
    main()
