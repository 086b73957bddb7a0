"""How long searches take and what they miss, at 10 thousand to a million chunks, embedded and on a Qdrant server.

Chunks are synthetic: vectors drawn around those of real texts (spread_vectors.py), which --data gives beside
the sample library; the queries are real ones under their instructions. They are loaded, optimised and searched
through the product's own index, once for every way of keeping the vectors: by meaning, with filters, by words, and
hybrid. Memory and disk are those of the embedded engine, on Linux; of a server they stay empty.

    python -m research.benchmarks.search_scale --data data/dev --real real.npz --points 10000 --into docs/evaluation
    python -m research.benchmarks.search_scale --qdrant http://host:6333 --points 1000000    # qdrant_choice.py
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from qdrant_client import QdrantClient, models
from tqdm import tqdm

from app.edge import EdgeProcess
from app.maintenance.optimize import optimize_index
from app.types.documents import Point, ScoredPoint
from app.vectors import QdrantVectorIndex
from app.vectors.filters import metadata_filter
from app.vectors.tuning import Quantization, search_params, searched_index
from embedder.command.standard_output import run_program
from research.benchmarks.qdrant_choice import QdrantChoice, add_qdrant_options, qdrant_choices
from research.benchmarks.real_vectors import RealVectors, real_vectors
from research.benchmarks.search_scale_report import Row, report, table
from research.benchmarks.serving_memory import Largest, largest_memory, memory_of
from research.benchmarks.spread_vectors import fit_spread, neighbour_cosines

VALUES = {"topic": 10, "place": 100, "year": 100}  # metadata → how many values; `year` is a number, the others texts
FILTERS: dict[str, dict[str, str]] = {
    "": {},
    "text, 1 chunk of 10": {"topic": "t1"},
    "text, 1 chunk of 100": {"place": "t1"},
    "number, 1 chunk of 100": {"year": "1"},
}
_FEW, _SOME = 10, 100  # queries: of filters that read every payload, and of others
_QUERIES_AFTER = {name: _SOME for name in FILTERS if name}
_EXACT = models.SearchParams(exact=True)
_UPSERTED = 2_000
_WORDS = 20
_ASKED_WORDS = 4  # of a text, for searches by words
_LIMIT = 10
_BATCH = 32
_BATCHES = 10
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Corpus:
    name: str
    vectors: np.ndarray
    texts: Sequence[str]  # taken in turn
    queries: np.ndarray
    has_metadata: bool = True  # whose index gives the graph more links, too


@dataclass(frozen=True)
class Opened:
    """`pid`: of the embedded engine's process; None of a server."""

    index: QdrantVectorIndex
    pid: int | None


@dataclass
class Bench:
    """One corpus in one engine, and the exact answers to its queries, with and without a filter."""

    corpus: Corpus
    data_dir: Path
    engine: QdrantChoice
    name: str = field(default_factory=lambda: f"benchmark-{uuid.uuid4().hex[:12]}")
    truth: dict[str, list[list[ScoredPoint]]] = field(default_factory=dict)  # by filter
    facts: dict[str, float] = field(default_factory=dict)

    def run(self, kept: Sequence[Quantization]) -> Iterator[Row]:
        try:
            yield from self._run(kept)
        finally:
            with self._opened("none") as opened:
                opened.index.drop(self.name)

    def _run(self, kept: Sequence[Quantization]) -> Iterator[Row]:
        with self._opened("none") as opened:
            self._load(opened.index)
        with self._opened("none") as opened:
            yield from self._measure("exact", opened, _EXACT, {name: _FEW for name in FILTERS if name})
            yield from self._measure_words(opened, "")
        for quantization in kept:
            self._optimize(quantization)
            with self._opened(quantization) as opened:
                if quantization == kept[0]:
                    yield from self._measure("exact, after optimize", opened, _EXACT, _QUERIES_AFTER)
                params = search_params(opened.index.client.get_collection(self.name))
                if params.exact:
                    tqdm.write(f"{len(self.corpus.vectors):,} points are too few for a graph: searches stay exact")
                    yield from self._measure_words(opened, ", after optimize")
                    return
                yield from self._measure(f"graph, {quantization}", opened, params, _QUERIES_AFTER)
                yield from self._measure_words(opened, f", graph, {quantization}")

    @contextmanager
    def _opened(self, quantization: Quantization) -> Iterator[Opened]:
        """Of the embedded engine a freshly started one, so that memory is not what loading or optimising left."""
        with ExitStack() as stack:
            if self.engine.url is None:
                edge = stack.enter_context(EdgeProcess(self.data_dir))
                index, pid = QdrantVectorIndex.over_edge(edge, quantization=quantization), edge.start().pid
            else:
                index, pid = (
                    QdrantVectorIndex.at(
                        self.engine.url,
                        api_key=self.engine.api_key,
                        quantization=quantization,
                        sharding=self.engine.sharding,
                    ),
                    None,
                )
            stack.callback(index.close)
            yield Opened(index, pid)

    def _load(self, index: QdrantVectorIndex) -> None:
        corpus, started = self.corpus, time.perf_counter()
        index.create(self.name, dimension=corpus.vectors.shape[1])
        with tqdm(total=len(corpus.vectors), desc="load", unit=" points", smoothing=0.05) as bar:
            for start in range(0, len(corpus.vectors), _UPSERTED):
                rows = corpus.vectors[start : start + _UPSERTED].tolist()
                index.upsert(self.name, [_point(corpus, start + n, row) for n, row in enumerate(rows)])
                bar.update(len(rows))
        self.facts["load_s"] = time.perf_counter() - started

    def _optimize(self, quantization: Quantization) -> None:
        with (
            self._opened(quantization) as opened,
            nullcontext(Largest()) if opened.pid is None else largest_memory(opened.pid) as largest,
            tqdm(desc=f"optimise ({quantization})", bar_format="{desc}: {elapsed}{postfix}") as bar,
        ):
            done = optimize_index(
                opened.index, self.name, on_progress=lambda condition: bar.set_postfix_str(condition.activity or "")
            )
        self.facts["build_s"] = done.seconds
        self.facts["build_peak_mb"] = largest.total

    def _measure(
        self, search: str, opened: Opened, params: models.SearchParams, filtered_queries: Mapping[str, int]
    ) -> Iterator[Row]:
        client = opened.index.client
        filtered = filtered_queries if self.corpus.has_metadata else {}
        number_paths = searched_index(client.get_collection(self.name)).number_paths
        for name, count in {"": len(self.corpus.queries), **filtered}.items():
            queries = self.corpus.queries[:count]
            condition = metadata_filter(FILTERS[name], number_paths=number_paths)
            latencies, found = timed(partial(_ask, client, self.name, params, condition), queries, f"{search} {name}")
            if params.exact:
                self.truth[name] = found
            yield self._row(
                search,
                opened,
                latencies,
                filter=name,
                batch_ms=None if name else _batch_ms(client, self.name, params, queries),
                recall=recall(found, self.truth[name]),
            )

    def _measure_words(self, opened: Opened, state: str) -> Iterator[Row]:
        """Through the product's own calls. Of hybrid searches the recall is that of the leg of meaning."""
        index, texts = opened.index, self.corpus.texts
        asked = [
            " ".join(texts[number % len(texts)].split()[:_ASKED_WORDS]) for number in range(len(self.corpus.queries))
        ]
        latencies, _ = timed(lambda text: index.search_sparse(self.name, text, limit=_LIMIT), asked, f"words{state}")
        yield self._row(f"words{state}", opened, latencies)
        pairs = list(zip(self.corpus.queries.tolist(), asked, strict=True))
        latencies, found = timed(
            lambda pair: index.search_legs(self.name, [pair[0]], pair[1], limit=_LIMIT)[0][0], pairs, f"hybrid{state}"
        )
        yield self._row(f"hybrid{state}", opened, latencies, recall=recall(found, self.truth[""]))

    def _row(self, search: str, opened: Opened, latencies: Sequence[float], **more: Any) -> Row:
        row = Row(
            corpus=self.corpus.name,
            engine=self.engine.label,
            points=len(self.corpus.vectors),
            search=search,
            queries=len(latencies),
            p50_ms=float(np.percentile(latencies, 50)),
            p95_ms=float(np.percentile(latencies, 95)),
            p99_ms=float(np.percentile(latencies, 99)),
            memory=None if opened.pid is None else memory_of(opened.pid),
            disk_mb=None if opened.pid is None else disk_mb(self.data_dir),
            **{"filter": "", "batch_ms": None, "recall": None, **more},
            **self.facts,
        )
        share = "" if row.recall is None else f", recall {row.recall:.4f}"
        tqdm.write(f"{row.engine}: {search} {row.filter}: p95 {row.p95_ms:.1f} ms{share}")
        return row


def _point(corpus: Corpus, number: int, vector: list[float]) -> Point:
    words = corpus.texts[number % len(corpus.texts)]
    metadata = {"document_id": f"d{number // 10}", "title": f"Text {number // 10}", "ordinal": number % 10}
    filtered = {key: number % most if key == "year" else f"t{number % most}" for key, most in VALUES.items()}
    return Point(
        _point_id(number),
        vector,
        {"page_content": words, "metadata": metadata | (filtered if corpus.has_metadata else {})},
    )


def _point_id(number: int) -> str:
    """As those of the product: a hash."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def _ask(
    client: QdrantClient, name: str, params: models.SearchParams, condition: models.Filter | None, query: np.ndarray
) -> list[ScoredPoint]:
    """As `QdrantVectorIndex.search` does, with these params."""
    request = _request(params, query, condition)
    [answer] = client.query_batch_points(name, [request])
    return [ScoredPoint(str(hit.id), hit.score, hit.payload or {}) for hit in answer.points[:_LIMIT]]


def _request(params: models.SearchParams, query: np.ndarray, condition: models.Filter | None) -> models.QueryRequest:
    return models.QueryRequest(
        query=models.NearestQuery(nearest=query.tolist()),
        filter=condition,
        params=params,
        with_payload=True,
        limit=_LIMIT + 1,
    )


def _batch_ms(client: QdrantClient, name: str, params: models.SearchParams, queries: np.ndarray) -> float:
    """Per query, the median of batches."""
    spent = []
    for start in range(0, min(len(queries), _BATCH * _BATCHES), _BATCH):
        requests = [_request(params, query, None) for query in queries[start : start + _BATCH]]
        started = time.perf_counter()
        client.query_batch_points(name, requests)
        spent.append((time.perf_counter() - started) * 1000 / len(requests))
    return float(np.median(spent))


def timed(
    ask: Callable[[Any], list[ScoredPoint]], queries: Sequence[Any] | np.ndarray, what: str
) -> tuple[list[float], list[list[ScoredPoint]]]:
    """Milliseconds and hits of each query, one after the other; the first few are asked twice, as a warm-up."""
    for query in queries[:5]:
        ask(query)
    latencies, found = [], []
    for query in tqdm(queries, desc=what, unit=" queries", leave=False):
        started = time.perf_counter()
        found.append(ask(query))
        latencies.append((time.perf_counter() - started) * 1000)
    return latencies, found


def recall(found: Sequence[Sequence[ScoredPoint]], truth: Sequence[Sequence[ScoredPoint]]) -> float:
    """Which part of the best ten is found; a hit as good as the tenth counts, whichever of equals it is."""
    shares = []
    for hits, best in zip(found, truth, strict=False):
        worst = min(hit.score for hit in best)
        shares.append(min(1.0, sum(hit.score >= worst - 1e-6 for hit in hits) / len(best)))
    return float(np.mean(shares))


def disk_mb(folder: Path) -> float:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) / _MEGABYTE


def tell_spread(real: RealVectors, drawn: np.ndarray) -> list[str]:
    """How near the ten nearest are: mean cosines of the 1st, 3rd and 10th, and the spread of the 10th."""
    lines = []
    for what, cosines in (
        ("real text to real text", neighbour_cosines(real.documents)),
        ("drawn to drawn, as many", neighbour_cosines(drawn)),
        ("real query to real text", neighbour_cosines(real.queries, real.documents)),
        ("real query to drawn", neighbour_cosines(real.queries, drawn)),
    ):
        low, middle, high = np.percentile(cosines[:, 9], [5, 50, 95])
        means = " ".join(f"{cosines[:, place].mean():.3f}" for place in (0, 2, 9))
        lines.append(f"{what}: 1st, 3rd, 10th {means}; the 10th from {low:.3f} by {middle:.3f} to {high:.3f}")
    return lines


def measure(options: argparse.Namespace, folder: Path, engines: Sequence[QdrantChoice]) -> Iterator[Row]:
    real = real_vectors(options.real, options.data)
    texts = [" ".join(text.split()[:_WORDS]) for text in real.texts]
    queries = real.queries[: options.queries]
    spread = fit_spread(real.documents)
    tqdm.write(f"{len(spread.real):,} real texts, {len(queries)} real queries; noise {spread.noise:.2f}")
    for line in tell_spread(real, spread.draw(len(spread.real), seed=1)):
        tqdm.write(line)
    name = "synthetic, no metadata" if options.bare else "synthetic"
    corpora: list[Callable[[], Corpus]] = [
        partial(lambda count: Corpus(name, spread.draw(count, seed=1), texts, queries, not options.bare), count)
        for count in options.points
    ]
    if options.real_corpus:
        corpora.append(lambda: Corpus("real", real.documents, texts, queries))
    for number, make in enumerate(corpora):
        corpus = make()
        for engine in engines:
            yield from Bench(corpus, folder / str(number), engine).run(options.kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="*", default=[10_000], help="sizes, one after the other")
    parser.add_argument("--kept", nargs="+", choices=get_args(Quantization), default=list(get_args(Quantization)))
    parser.add_argument("--data", type=Path, help="folder of the dev corpora; without it the sample library alone")
    parser.add_argument(
        "--real", type=Path, default=Path("real.npz"), help="keeps the real vectors; made where missing"
    )
    parser.add_argument("--real-corpus", action="store_true", help="also measure the real vectors as they are")
    parser.add_argument("--bare", action="store_true", help="chunks without metadata that could be filtered by")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="where the collections are made; they are removed afterwards")
    parser.add_argument("--into", type=Path, help="folder of search-scale.json, .md and .png; other sizes stay in them")
    add_qdrant_options(parser)
    options = parser.parse_args()
    command = "python -m research.benchmarks.search_scale " + shlex.join(sys.argv[1:])
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, qdrant_choices(options) as engines:
            for row in measure(options, Path(folder), engines):
                rows.append(row)
                report(rows, command, options.into)
    except KeyboardInterrupt:
        sys.exit("Stopped; what was made is removed.")
    print(table(rows))


if __name__ == "__main__":
    run_program(main)
