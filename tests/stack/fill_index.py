"""Fills the sample collection of a stack: texts of random words, with drawn vectors in place of the model's.

Runs in a container of the stack, and uses the product's own pipeline for everything but the vectors:

    docker compose run --rm --volume ./tests/stack:/stack:ro worker python /stack/fill_index.py 100000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np

from app.commands.worker import worker_if_needed
from app.errors import UnavailableError
from app.settings import Settings
from app.testing import text_source
from app.types.documents import JobState
from app.wiring.remote import RemoteEmbedder
from app.wiring.services import open_services

COLLECTION = "sample"
CHUNKS = 10  # of a document
WORDS_OF_CHUNK = 120
VOCABULARY = 20_000
TRIES = 60
TURN = 100  # documents between two looks at how many chunks there are
HANDED_IN = 500  # documents that wait at once

T = TypeVar("T")


class DrawnVectors(RemoteEmbedder):
    """Asks the embedding server for everything but the vectors of documents."""

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        drawn = np.random.default_rng().standard_normal((len(texts), self.info.dimension), dtype=np.float32)
        return list((drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).tolist())


def text_of(number: int) -> str:
    random = np.random.default_rng(number)
    parts = (" ".join(f"w{word}" for word in random.integers(VOCABULARY, size=WORDS_OF_CHUNK)) for _ in range(CHUNKS))
    return "\n\n".join(f"Part {part} of {number}. {words}" for part, words in enumerate(parts))


def patiently(ask: Callable[[], T]) -> T:
    """A database on a machine that does much else may be asked in vain."""
    for _ in range(TRIES):
        with suppress(UnavailableError):
            return ask()
        time.sleep(1)
    return ask()


def main() -> None:
    wanted = int(sys.argv[1])
    settings = Settings()
    with (
        open_services(settings, embedder=DrawnVectors.of(settings)) as services,
        worker_if_needed(services) as ensure_working,
    ):

        def chunks() -> int:
            return patiently(
                lambda: services.catalog.indexes.chunk_count(services.catalog.collection(COLLECTION).active_index)
            )

        def waiting() -> int:
            counts = patiently(services.catalog.job_counts)
            return sum(counts[state] for state in (JobState.QUEUED, JobState.RUNNING))

        services.library.ensure_collection(COLLECTION)
        number = 0
        while chunks() < wanted:
            for _ in range(min(TURN, HANDED_IN - waiting())):
                services.library.add_document(COLLECTION, text_source(f"text://{number}", text_of(number)))
                number += 1
            ensure_working()
            time.sleep(0.5)
        while waiting():
            ensure_working()
            time.sleep(0.5)
        print(f"{number} documents, {chunks()} chunks")


if __name__ == "__main__":
    main()
