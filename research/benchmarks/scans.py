"""How scans are read: forty of them, generated, with the errors of recognition, the pages that questions find, and
whether marked rectangles cover the words of passages. Needs the extra `ocr` and Debian's fonts-dejavu.

    python -m research.benchmarks.scans [--only clean] [--passages 200] [--pages 100] [--out docs/evaluation/scans.json]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from statistics import mean

import numpy as np
import psutil

from app.documents.blobs import FolderBlobStore
from app.documents.pages import DocumentPages
from app.services import Services
from app.settings import Settings
from app.types.documents import Document, Source
from app.types.pages import PageView
from app.types.search import SearchRequest
from app.wiring.ingestion import open_pipeline, run_worker
from app.wiring.services import open_services
from embedder.command.standard_output import run_program
from embedder.text.sentences import sentence_spans
from ingest.readers import ProcessPageRenderer, ProcessReader
from ingest.readers.document import TextInMemory
from ingest.readers.media_types import type_of_suffix
from research.benchmarks.scan_pages import Scan, TruePage, long_scan, scans, text_pdf

_COVERED = 0.5  # of a word's rectangle, at least, must be marked
_STRAY = 0.1  # of the marked words, at most, may belong to nothing of the passage


def errors(found: str, truth: str) -> int:
    """Levenshtein's distance."""
    sought = np.array([ord(each) for each in truth])
    row = np.arange(len(truth) + 1)
    steps = np.arange(len(truth) + 1)
    for letter in found:
        nearest = np.minimum(row[1:] + 1, row[:-1] + (sought != ord(letter)))
        row = np.minimum.accumulate(np.concatenate([[row[0] + 1], nearest]) - steps) + steps
    return int(row[-1])


def plain(text: str) -> str:
    return " ".join(text.split())


class Coverage:
    """Passages whose words are marked on their page."""

    def __init__(self) -> None:
        self.good = 0
        self.all = 0
        self.bad: list[str] = []

    def add(self, name: str, passage: str, view: PageView, truth: TruePage) -> None:
        sought = _true_words(passage, truth)
        if len(sought) < 3:
            return
        self.all += 1
        boxes = [view.words[at][1:] for at in view.marked]
        missed = [truth.words[at] for at in sought if _covered(truth.places[at], boxes) < _COVERED]
        others = [truth.places[at] for at in sought]
        stray = sum(1 for box in boxes if _covered(box, others) < 0.2)
        if missed or stray > _STRAY * max(1, len(boxes)):
            self.bad.append(
                f"{name}, page {view.number}: missed {missed[:5]}, {stray} of {len(boxes)} stray: {passage[:60]!r}"
            )
        else:
            self.good += 1


def _true_words(passage: str, truth: TruePage) -> range:
    """Those of the page that the passage holds: from the first to the last that agree."""
    matcher = SequenceMatcher(None, truth.words, passage.split(), autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    longest = [block for block in blocks if block.size >= 3] or blocks
    return range(longest[0].a, longest[-1].a + longest[-1].size) if longest else range(0)


def _covered(place: Sequence[float], boxes: Sequence[Sequence[float]]) -> float:
    """The share of a rectangle that others cover; those do not overlap, as words do not."""
    left, top, right, bottom = place
    area = max((right - left) * (bottom - top), 1e-12)
    shared = sum(
        max(0.0, min(right, box[2]) - max(left, box[0])) * max(0.0, min(bottom, box[3]) - max(top, box[1]))
        for box in boxes
    )
    return shared / area


@contextmanager
def watched(reader: ProcessReader) -> Iterator[dict[str, float]]:
    """MB that the largest of its children took, and seconds of processor time of the one that worked longest."""
    seen, ended = {"megabytes": 0.0, "cpu_s": 0.0}, threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            for pid in reader.child_ids:
                try:
                    child = psutil.Process(pid)
                    seen["megabytes"] = max(seen["megabytes"], child.memory_info().rss / 1e6)
                    seen["cpu_s"] = max(seen["cpu_s"], sum(child.cpu_times()[:2]))
                except psutil.Error:
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def measure_scans(made: Sequence[Scan], home: Path, passages: int, seed: int) -> dict[str, object]:
    """Ingested as documents are, asked as people ask."""
    with open_services(Settings(home=home)) as services:
        services.library.create_collection("scans")
        services.library.create_collection("texts")
        for scan in made:
            source = Source(scan.name, f"file:///{scan.name}", type_of_suffix(scan.name), data=scan.data)
            services.library.add_document("scans", source)
            for number, page in enumerate(scan.pages, start=1):
                uri = f"file:///{scan.name}/{number}"
                services.library.add_document("texts", Source(uri, uri, "text/plain", data=page.text.encode()))
        with open_pipeline(services, is_stopping=lambda: False):
            stop = threading.Event()
            worker = threading.Thread(target=run_worker, args=(services, stop))
            worker.start()
            while any(document.state == "queued" for document in services.catalog.documents(limit=10_000)):
                time.sleep(0.5)
            stop.set()
            worker.join()
        documents = {
            document.uri.rpartition("/")[2]: document for document in services.catalog.documents("scans", limit=1_000)
        }
        for document in documents.values():
            if document.state != "ready":
                print(document.uri, document.error)
        rates: dict[str, list[float]] = defaultdict(list)
        for scan in made:
            document = documents[scan.name]
            for number, page in enumerate(scan.pages, start=1):
                rates[_kind_of(scan, number)].append(_error_rate(services.blobs, document, number, page))
        asked = _ask(services, made)
        coverage = _coverage(made, services.blobs, documents, passages, seed)
    return {
        "error_rates": {kind: round(mean(each), 5) for kind, each in rates.items()},
        "worst_error_rates": {kind: round(max(each), 5) for kind, each in rates.items()},
        "questions": asked,
        "coverage": {"passages": coverage.all, "covered": coverage.good, "others": coverage.bad},
    }


def _ask(services: Services, made: Sequence[Scan]) -> dict[str, object]:
    """Whether the page that answers comes first: of the scans, and of their texts as they were before."""
    right, right_texts, asked, wrong = 0, 0, 0, []
    for scan in made:
        for question, page in scan.questions:
            asked += 1
            first = services.search.search(SearchRequest(question, collection="scans", limit=1)).hits[0]
            is_right = (first.document.uri, first.chunk.page or 1) == (f"file:///{scan.name}", page)
            right += is_right
            first = services.search.search(SearchRequest(question, collection="texts", limit=1)).hits[0]
            right_texts += first.document.uri == f"file:///{scan.name}/{page}"
            if not is_right:
                wrong.append(question)
    return {"asked": asked, "right_page_first": right, "of_the_texts_themselves": right_texts, "others": wrong}


def _kind_of(scan: Scan, page: int) -> str:
    return "text pages" if scan.kind.startswith("mixed") and page != 2 else scan.kind


def _page_text(blobs: FolderBlobStore, document: Document, number: int) -> tuple[str, int]:
    starts = blobs.layout(document.content_hash, 0, 0).page_starts
    end = starts[number] if number < len(starts) else 2**40
    return blobs.text_window(document.content_hash, starts[number - 1], end).text, starts[number - 1]


def _error_rate(blobs: FolderBlobStore, document: Document, number: int, page: TruePage) -> float:
    found, _ = _page_text(blobs, document, number)
    return errors(plain(found), page.text) / len(page.text)


def _coverage(
    made: Sequence[Scan], blobs: FolderBlobStore, documents: dict[str, Document], passages: int, seed: int
) -> Coverage:
    rng = random.Random(seed)
    renderer = ProcessPageRenderer()
    pages = DocumentPages(blobs, renderer, cache_bytes=1)
    coverage = Coverage()
    places = [(scan, number) for scan in made for number in range(1, len(scan.pages) + 1)]
    while coverage.all < passages:
        scan, number = rng.choice(places)
        document = documents[scan.name]
        text, begin = _page_text(blobs, document, number)
        spans = sentence_spans(text)
        first = rng.randrange(len(spans))
        last = min(len(spans) - 1, first + rng.randrange(3))
        start, end = begin + spans[first][0], begin + spans[last][1]
        view = pages.page(document, number, start=start, end=end)
        coverage.add(scan.name, text[start - begin : end - begin], view, scan.pages[number - 1])
    renderer.close()
    return coverage


def measure_long(page_count: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "long.pdf"
        file.write_bytes(long_scan(page_count))
        with ProcessReader() as reader, watched(reader) as seen:
            started = time.monotonic()
            text = TextInMemory()
            found = reader(file, uri="long.pdf", into=text)
            seconds = time.monotonic() - started
        return {
            "pages": page_count,
            "megabytes": round(file.stat().st_size / 1e6, 1),
            "seconds": round(seconds, 1),
            "seconds_per_page": round(seconds / page_count, 2),
            "cpu_seconds": round(seen["cpu_s"], 1),
            "cpu_seconds_per_page": round(seen["cpu_s"] / page_count, 2),
            "largest_child_mb": round(seen["megabytes"]),
            "found": dict(found.metadata),
            "characters": len(text.of(found).text),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="kinds that begin so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--passages", type=int, default=200, help="whose marked words are checked")
    parser.add_argument("--pages", type=int, default=0, help="of a long scan, which is read alone, by the reader")
    parser.add_argument("--save", type=Path, help="a folder for the scans")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made = (
        []
        if options.only == "none"
        else [scan for scan in scans(options.seed) if scan.kind.startswith(options.only or "")]
    )
    if made:
        made += [
            Scan(f"text-{number}.pdf", "text layer", data, pages)
            for number in range(5)
            for data, pages in [text_pdf(4, seed=options.seed + number)]
        ]
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for scan in made:
            (options.save / scan.name).write_bytes(scan.data)
    found: dict[str, object] = {}
    if made:
        with tempfile.TemporaryDirectory() as home:
            found |= measure_scans(made, Path(home), options.passages, options.seed)
    if options.pages:
        found["long"] = measure_long(options.pages)
    print(json.dumps(found, indent=2, ensure_ascii=False))
    if options.out:
        options.out.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_program(main)
