"""Whether hits say the page on which their sentence stands. Sentences are taken from the pages as poppler's `pdftotext`
shows them, asked as queries, and the page of the best hit in their document is compared.

    python -m benchmarks.hit_pages PDF PDF … [--sentences 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from app.services import Services
from app.settings import Settings
from app.types.documents import Source
from app.types.search import SearchRequest
from app.wiring.ingestion import open_pipeline, run_worker
from app.wiring.services import open_services
from embedder.sentences import sentence_spans

_FEWEST_WORDS, _MOST_WORDS = 8, 30
_SENTENCE = re.compile(r"[A-Z][^\n]*[a-z]\.")
_RANKS = 50  # in which the document must come


class Sentence(NamedTuple):
    document: str
    page: int
    text: str


def sentences_of(path: Path) -> list[Sentence]:
    """Those that stand once in the document."""
    shown = subprocess.run(["pdftotext", "-enc", "UTF-8", str(path), "-"], capture_output=True, check=True).stdout
    found = []
    for page, text in enumerate(shown.decode("utf-8", "replace").split("\f"), start=1):
        joined = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        for start, end in sentence_spans(joined):
            sentence = joined[start:end].strip()
            if _SENTENCE.fullmatch(sentence) and _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS:
                found.append(Sentence(path.name, page, sentence))
    counts = Counter(each.text for each in found)
    return [each for each in found if counts[each.text] == 1]


def ingest(services: Services, paths: Sequence[Path]) -> None:
    services.library.create_collection("papers")
    for path in paths:
        source = Source(path.name, f"file:///{path.name}", "application/pdf", data=path.read_bytes())
        services.library.add_document("papers", source)
    with open_pipeline(services, is_stopping=lambda: False):
        stop = threading.Event()
        worker = threading.Thread(target=run_worker, args=(services, stop))
        worker.start()
        while any(document.state == "queued" for document in services.catalog.documents(limit=10_000)):
            time.sleep(0.5)
        stop.set()
        worker.join()


def page_found(services: Services, sentence: Sentence) -> int | None:
    result = services.search.search(SearchRequest(query=sentence.text, collection="papers", limit=_RANKS))
    for hit in result.hits:
        if hit.document.uri.endswith(f"/{sentence.document}"):
            return hit.chunk.page
    return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hit_pages", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    each = options.sentences // len(options.files)
    asked = []
    for path in options.files:
        found = sentences_of(path)
        asked += draw.sample(found, min(each, len(found)))
    with tempfile.TemporaryDirectory() as home, open_services(Settings(home=Path(home))) as services:
        ingest(services, options.files)
        right = 0
        for sentence in asked:
            page = page_found(services, sentence)
            right += page == sentence.page
            if page != sentence.page:
                print(f"{sentence.document}, page {sentence.page}, found on {page}: {sentence.text}")
    print(f"{right} of {len(asked)} sentences of {len(options.files)} documents: the page is right")


if __name__ == "__main__":
    main()
