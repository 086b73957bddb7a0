"""Whether hits say the page on which their sentence stands. Sentences are taken from the pages as poppler's `pdftotext`
shows them and asked as queries. The page of the best hit is right where poppler shows the begin of its sentence there.

    python -m research.benchmarks.hit_pages PDF PDF … [--sentences 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
import threading
import time
import unicodedata
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
from embedder.command.standard_output import run_program
from embedder.text.sentences import sentence_spans

_FEWEST_WORDS, _MOST_WORDS = 8, 30
_SENTENCE = re.compile(r"[A-Z][^\n]*[a-z]\.")
_HITS = 5
_BEGIN = 30  # letters of a sentence


class Sentence(NamedTuple):
    document: str
    page: int
    text: str


def pages_of(path: Path) -> list[str]:
    shown = subprocess.run(["pdftotext", "-enc", "UTF-8", str(path), "-"], capture_output=True, check=True).stdout
    return shown.decode("utf-8", "replace").split("\f")


def letters_of(text: str) -> str:
    """Alone: where lines end and which hyphens stay differs between programs."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())


def sentences_of(path: Path) -> list[Sentence]:
    """Those that stand once in the document."""
    found = []
    for page, text in enumerate(pages_of(path), start=1):
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


def best_sentence(services: Services, query: str) -> Sentence:
    """With the page that the hit says."""
    hit = services.search.search(SearchRequest(query=query, collection="papers", limit=_HITS)).hits[0]
    start = 0 if hit.why is None else hit.why.start
    return Sentence(hit.document.uri.rpartition("/")[2], hit.chunk.page or 0, hit.chunk.text[start:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.benchmarks.hit_pages", description=__doc__)
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
        shown = {path.name: [letters_of(text) for text in pages_of(path)] for path in options.files}
        right = same = 0
        for sentence in asked:
            found = best_sentence(services, sentence.text)
            same += (found.document, found.page) == (sentence.document, sentence.page)
            begin = letters_of(found.text)[:_BEGIN]
            if begin in shown[found.document][found.page - 1]:
                right += 1
            else:
                pages = [number for number, text in enumerate(shown[found.document], start=1) if begin in text]
                print(f"{found.document}: page {found.page} is said, shown on {pages}: {found.text[:100]!r}")
    print(f"{right} of {len(asked)} hits in {len(options.files)} documents say the page of their sentence;")
    print(f"{same} are on the page of the sentence that was asked for.")


if __name__ == "__main__":
    run_program(main)
