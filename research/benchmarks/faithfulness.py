"""Are the reasons that a search gives for its hits the real ones? What they name is taken away, and what they do not.

Real queries over four corpora, chunked and embedded as ingestion does it. Run it as
`python -m research.benchmarks.faithfulness --data FOLDER`, with the extra [dev];
it writes docs/evaluation/faithfulness.md and .json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from app.search.highlights import Highlighter
from app.search.soft_tokens import CONVERGENCE_TOLERANCE, converged_step
from app.types.defaults import CHUNK_OVERLAP, CHUNK_TOKENS
from app.types.documents import Collection
from app.types.search import Hit, HitChunk, HitDocument, SearchMode
from app.types.texts import ExtractedText
from app.wiring.embedding import LocalEmbedder
from embedder import Encoder, load_encoder
from embedder.command.standard_output import run_program
from embedder.model_info import DEFAULT_MODEL
from embedder.refinement_steps import RefinementStep
from embedder.text.sentences import sentence_spans
from ingest.splitter import TokenSplitter
from research.benchmarks.ablation import Found, Pair, SentenceDrops, WordAblation, pair_sentences, without_sentences
from research.benchmarks.faithfulness_report import BY_WORDS, write_report
from research.benchmarks.word_ablation import pair_word_sentences

RETRIEVAL = ("cranfield", "medline_med", "stackfaq")
ASPECTS = ("wiki_movies", "openstax", "cfpb_complaints")  # of triplets.multiaspect2: texts of several sentences
TOP = 10
RESAMPLES = 2000
COUNTS = ("documents", "queries", "sentence_hits", "word_hits", "seed")  # options that decide what is measured
CLOSE = 0.1  # how far below the best sentence a second one may be


@dataclass(frozen=True, slots=True)
class Corpus:
    """`queries` are (text, instruction)."""

    name: str
    documents: Sequence[str]
    queries: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Searched:
    """`gaps` are the differences of score of neighbouring ranks; `remaining` and `shared` (queries, steps)."""

    hits: list[list[Found]]  # by query, best first
    gaps: np.ndarray
    remaining: np.ndarray
    shared: np.ndarray  # of the first ten hits, those that are the last step's


def main() -> None:
    options = parse_options()
    started, cpu = time.perf_counter(), time.process_time()
    encoder, local = load_encoder(options.model), LocalEmbedder(options.model)
    rng = random.Random(options.seed)
    corpora = [read_retrieval(options.data, name, options, rng) for name in RETRIEVAL]
    corpora.append(read_aspects(options.data, options, rng))
    results: dict[str, Any] = {}
    for corpus in corpora:
        print(f"{corpus.name}: {len(corpus.documents)} documents, {len(corpus.queries)} queries", flush=True)
        chunks = split_corpus(corpus, local)
        searched = search(chunks, corpus.queries, encoder)
        results[corpus.name] = measure(searched, encoder, local, options)
        results[corpus.name]["pairs"] |= measure_words_mode(chunks, corpus.queries, options)
        results[corpus.name] |= {"documents": len(corpus.documents), "queries": len(corpus.queries)}
        facts = {
            "model": options.model,
            "command": command_of(options),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread(s) of torch",
            "cpu_seconds": round(time.process_time() - cpu),
            "seconds": round(time.perf_counter() - started),
        }
        # After each corpus, so that a run which is ended early leaves what it has measured.
        write_report(options.out, facts, results, seed=options.seed, resamples=RESAMPLES)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with ir.*.jsonl.gz and triplets.multiaspect2")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--documents", type=int, default=300, help="of each corpus: the judged ones, then random ones")
    parser.add_argument("--queries", type=int, default=16, help="of each corpus")
    parser.add_argument("--sentence-hits", type=int, default=3, help="of each query, with several sentences")
    parser.add_argument("--word-hits", type=int, default=2, help="of each query, whose words are removed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/evaluation/faithfulness"))
    return parser.parse_args()


def command_of(options: argparse.Namespace) -> str:
    """What was run, wherever the data lay."""
    chosen = [f"--{name.replace('_', '-')} {getattr(options, name)}" for name in COUNTS]
    return f"python -m research.benchmarks.faithfulness --data data/dev --model {options.model} {' '.join(chosen)}"


def read_rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_retrieval(folder: Path, name: str, options: argparse.Namespace, rng: random.Random) -> Corpus:
    """The documents that are judged relevant to the queries, filled up with others."""
    queries = rng.sample(read_rows(folder / f"ir.{name}.queries.jsonl.gz"), options.queries)
    texts = {
        row["_id"]: " ".join(filter(None, (row.get("title"), row["text"])))
        for row in read_rows(folder / f"ir.{name}.corpus.jsonl.gz")
    }
    asked = {row["_id"] for row in queries}
    judged = [row["did"] for row in read_rows(folder / f"ir.{name}.qrels.jsonl.gz") if row["qid"] in asked]
    chosen = dict.fromkeys([each for each in judged if each in texts] + rng.sample(sorted(texts), len(texts)))
    documents = [texts[each] for each in list(chosen)[: options.documents]]
    return Corpus(name, documents, [(row["text"], row.get("instruction", "")) for row in queries])


def read_aspects(folder: Path, options: argparse.Namespace, rng: random.Random) -> Corpus:
    """Texts asked for under instructions that name one of their aspects."""
    rows = [row for row in read_rows(folder / "triplets.multiaspect2.jsonl.gz") if row["task"].split(":")[0] in ASPECTS]
    texts = sorted({text for row in rows for text in (*row["pos"], *row["neg"])})
    queries = [(row["query"], row["instruction"]) for row in rng.sample(rows, options.queries)]
    return Corpus("multiaspect2", rng.sample(texts, min(options.documents, len(texts))), queries)


def split_corpus(corpus: Corpus, local: LocalEmbedder) -> list[str]:
    split = TokenSplitter(local, max_tokens=CHUNK_TOKENS, overlap=CHUNK_OVERLAP)
    spans = (span.text for text in corpus.documents for span in split(ExtractedText(text, "", "text/plain")))
    return list(dict.fromkeys(spans))


def search(chunks: Sequence[str], queries: Sequence[tuple[str, str]], encoder: Encoder) -> Searched:
    vectors = encoder.encode_documents(chunks).astype(np.float64)  # (N, D)
    hits, gaps, remaining, shared = [], [], [], []
    for number, (text, instruction) in enumerate(queries):
        found = encoder.refine(text, instruction=instruction)
        prefixes = found.prefix_vectors.astype(np.float64)  # (K, D)
        scores = prefixes @ vectors.T  # (K, N)
        scores[:, [place for place, chunk in enumerate(chunks) if chunk == text]] = -1.0
        top = np.argsort(-scores, axis=1)[:, :TOP]
        gaps.append(-np.diff(scores[-1, top[-1]]))
        remaining.append(1 - prefixes @ prefixes[-1])
        shared.append([len(set(each) & set(top[-1])) for each in top.tolist()])
        hits.append(
            [Found(number, text, instruction, prefixes[-1], chunks[place], vectors[place]) for place in top[-1]]
        )
    return Searched(hits, np.concatenate(gaps), np.asarray(remaining), np.asarray(shared))


def measure(searched: Searched, encoder: Encoder, local: LocalEmbedder, options: argparse.Namespace) -> dict[str, Any]:
    chosen = [
        [hit for hit in hits if len(sentence_spans(hit.chunk)) > 1][: options.sentence_hits] for hits in searched.hits
    ]
    begin = time.process_time()
    named = [highlight(hits, encoder, local) for hits in chosen if hits]
    middle = time.process_time()
    drops = [each for hits in chosen if hits for each in without_sentences(hits, encoder)]
    end = time.process_time()
    for_words = [hit for hits in searched.hits for hit in hits[: options.word_hits]]
    words = WordAblation(encoder, seed=options.seed).measure(for_words)
    return {
        "hits": {"sentences": len(drops), "words": len(for_words)},
        "sentences_per_hit": float(np.mean([len(each.spans) for each in drops])),
        "median_gap": float(np.median(searched.gaps)),
        "cost_s_per_hit": {"nearest": (middle - begin) / len(drops), "leave-one-out": (end - middle) / len(drops)},
        "converged": measure_convergence(searched),
        "pairs": pair_sentence_kinds(drops, [start for each in named for start in each]) | words,
    }


def measure_words_mode(
    chunks: Sequence[str], queries: Sequence[tuple[str, str]], options: argparse.Namespace
) -> dict[str, list[Pair]]:
    pairs = pair_word_sentences(chunks, [text for text, _ in queries], hits_per_query=options.sentence_hits, top=TOP)
    return {BY_WORDS: pairs}


def highlight(hits: Sequence[Found], encoder: Encoder, local: LocalEmbedder) -> list[int]:
    """Where the sentence begins that the product names, by the product's own code, with nothing remembered."""
    contract = encoder.contract
    collection = Collection(
        name="benchmark",
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        document_instruction=contract.default_document_instruction,
        document_steps=contract.default_document_steps,
        chunk_tokens=CHUNK_TOKENS,
        chunk_overlap=CHUNK_OVERLAP,
        active_index="benchmark--1",
    )
    plain = [
        Hit(rank, hit.score, HitDocument("", "", "", {}), HitChunk("", hit.chunk, 0, len(hit.chunk), None))
        for rank, hit in enumerate(hits, start=1)
    ]
    highlighted = Highlighter(local).highlight(
        plain,
        hits[0].query_vector.tolist(),
        document_instruction=collection.document_instruction,
        mode=SearchMode.DENSE,
    )
    return [hit.why.start if hit.why else -1 for hit in highlighted]


def pair_sentence_kinds(drops: Sequence[SentenceDrops], starts: Sequence[int]) -> dict[str, list[Pair]]:
    best = {
        id(each): next(place for place, span in enumerate(each.spans) if span[0] == start)
        for each, start in zip(drops, starts, strict=True)
    }

    def nearest(hit: SentenceDrops) -> int:
        return best[id(hit)]

    def second(hit: SentenceDrops) -> int | None:
        """The next nearest, where it is close to the best."""
        places = np.argsort(-hit.alone, kind="stable")
        after = next(int(place) for place in places if place != nearest(hit))
        return after if hit.alone[after] >= hit.alone[nearest(hit)] - CLOSE else None

    return {
        "nearest sentence (shipped)": pair_sentences(drops, nearest),
        "leave-one-out": pair_sentences(drops, lambda hit: int(np.argmax(hit.drops))),
        "nearest two, left out in turn": pair_sentences(drops, lambda hit: best_of_two(hit, nearest(hit))),
        "longest sentence": pair_sentences(
            drops, lambda hit: int(np.argmax([end - start for start, end in hit.spans]))
        ),
        "first sentence": pair_sentences(drops, lambda _: 0),
        "second sentence, where close": pair_sentences(drops, second, but=nearest),
    }


def best_of_two(hit: SentenceDrops, nearest: int) -> int:
    other = next(int(place) for place in np.argsort(-hit.alone, kind="stable") if place != nearest)
    return nearest if hit.drops[nearest] >= hit.drops[other] else other


def measure_convergence(searched: Searched) -> dict[str, Any]:
    """Where the vector of each query converges by the product's tolerance, and what is found if one stops there."""
    steps = [
        converged_step([RefinementStep(step, (), float(left)) for step, left in enumerate(row, start=1)])
        for row in searched.remaining
    ]
    kept = [int(row[(step or len(row)) - 1]) for row, step in zip(searched.shared, steps, strict=True)]
    return {"tolerance": CONVERGENCE_TOLERANCE, "steps": steps, "kept": kept}


if __name__ == "__main__":
    run_program(main)
