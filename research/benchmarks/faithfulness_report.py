"""Pairs of garbage as statistics, and the page docs/evaluation/faithfulness.md with the numbers beside it as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.ablation import Pair

SHIPPED = "nearest sentence (shipped)"
SENTENCES = (
    SHIPPED,
    "leave-one-out",
    "nearest two, left out in turn",
    "second sentence, where close",
    "longest sentence",
    "first sentence",
)
BY_WORDS = "marked sentence"  # of what words alone found
WORDS = (
    "suppressed in the query",
    "suppressed in the chunk",
    "suppressed in both",
    "shared concept deleted",
    "word of the query's refinement and text deleted",
    "word of the query's refinement alone deleted",
)


def write_report(out: Path, facts: Mapping[str, Any], results: Mapping[str, Any], *, seed: int, resamples: int) -> None:
    """`out` without a suffix: writes out.md and out.json."""
    statistics = {
        name: {kind: summarise(pairs, seed=seed, resamples=resamples) for kind, pairs in found["pairs"].items()}
        for name, found in results.items()
    }
    statistics["all"] = {
        kind: summarise(
            join_pairs([found["pairs"].get(kind, []) for found in results.values()]), seed=seed, resamples=resamples
        )
        for kind in (*SENTENCES, *WORDS, BY_WORDS)
    }
    kept = {name: {key: value for key, value in found.items() if key != "pairs"} for name, found in results.items()}
    record = {**facts, "corpora": kept, "statistics": statistics}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(render(record), encoding="utf-8")


def join_pairs(corpora: Sequence[Sequence[Pair]]) -> list[Pair]:
    """Queries of different corpora keep apart."""
    return [
        Pair(10_000 * number + pair.query, pair.named, pair.control)
        for number, pairs in enumerate(corpora)
        for pair in pairs
    ]


def summarise(pairs: Sequence[Pair], *, seed: int, resamples: int) -> dict[str, float]:
    """Means, the mean difference with its 95% interval over whole queries, and how often named > control."""
    if not pairs:
        return {"hits": 0}
    queries = sorted({pair.query for pair in pairs})
    place = {query: row for row, query in enumerate(queries)}
    sums, counts = np.zeros(len(queries)), np.zeros(len(queries))
    for pair in pairs:
        sums[place[pair.query]] += pair.named - pair.control
        counts[place[pair.query]] += 1
    drawn = np.random.default_rng(seed).integers(len(queries), size=(resamples, len(queries)))
    low, high = np.percentile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [2.5, 97.5])
    return {
        "hits": len(pairs),
        "queries": len(queries),
        "named": float(np.mean([pair.named for pair in pairs])),
        "control": float(np.mean([pair.control for pair in pairs])),
        "difference": float(sums.sum() / counts.sum()),
        "low": float(low),
        "high": float(high),
        "share": float(np.mean([pair.named > pair.control for pair in pairs])),
    }


def render(record: Mapping[str, Any]) -> str:
    return "\n".join(
        [
            *describe_method(record),
            *describe_sentences(record),
            *describe_words_mode(record),
            *describe_words(record),
            "",
        ]
    )


def describe_method(record: Mapping[str, Any]) -> list[str]:
    samples = [
        f"{name} {each['documents']} documents, {each['queries']} queries, {each['hits']['sentences']} hits of several "
        f"sentences ({each['sentences_per_hit']:.1f} on average), {each['hits']['words']} hits for words"
        for name, each in record["corpora"].items()
    ]
    gap = np.median([each["median_gap"] for each in record["corpora"].values()])
    return [
        "<!-- Written by research/benchmarks/faithfulness.py; run it again instead of changing this page. -->",
        "",
        "# Are the explanations faithful?",
        "",
        "```sh",
        record["command"],
        "```",
        "",
        wrap(
            f"Model {record['model']} on {record['machine']}: {record['cpu_seconds']} s of CPU.",
            f"Documents are chunked and embedded as ingestion does it. Samples: {'; '.join(samples)}.",
        ),
        "",
        wrap(
            "What an explanation names is taken away, the rest is embedded again, and the cosine of query and chunk",
            "drops.",
            "The same is done with something like it that is not named: of sentences, the mean of up to three others",
            "nearest in length; of concepts, one that query and chunk do not share and that has half to twice the",
            "probability; of words of the chunk, one that is there as often. Intervals are 95%, from a bootstrap that",
            f"draws whole queries. Neighbouring ranks of the first ten are {gap:.4f} apart (median): a smaller drop",
            "seldom costs a hit its rank.",
        ),
        "",
    ]


def describe_sentences(record: Mapping[str, Any]) -> list[str]:
    shipped = record["statistics"]["all"][SHIPPED]
    costs = [
        f"{name} {each['cost_s_per_hit']['nearest']:.3f} and {each['cost_s_per_hit']['leave-one-out']:.3f}"
        for name, each in record["corpora"].items()
    ]
    return [
        "## Sentences",
        "",
        wrap(
            f"**In plain words:** without the marked sentence the score of a hit falls by {shipped['named']:.3f} on",
            f"average, without another sentence of about its length by {max(shipped['control'], 0):.3f}.",
            f"In {shipped['share']:.0%} of {shipped['hits']} hits the marked sentence mattered more.",
        ),
        "",
        *table(record, SENTENCES),
        "",
        wrap(
            "Seconds of CPU for each hit, of the shipped way, and of leave-one-out together with embedding the",
            f"sentences, which the other rows need: {'; '.join(costs)}.",
            "Leave-one-out names the sentence by the very number that is measured here: it is the bound of what",
            "can be reached.",
        ),
        "",
    ]


def describe_words_mode(record: Mapping[str, Any]) -> list[str]:
    return [
        "## Sentences of what words alone found",
        "",
        wrap(
            "By words the score is BM25; drops are shares of it, with the IDF of all chunks, of which the explanation",
            "sees only those of the hits.",
        ),
        "",
        *table(record, [BY_WORDS]),
        "",
    ]


def describe_words(record: Mapping[str, Any]) -> list[str]:
    converged = [each["converged"] for each in record["corpora"].values()]
    steps = [step for each in converged for step in each["steps"]]
    kept = [count for each in converged for count in each["kept"]]
    return [
        "## Concepts and words",
        "",
        wrap(
            "A concept is a word, other than a stop word, among the 30 most probable of each refinement step of the",
            "query and of the chunk. To suppress it is to take 10 from its logits.",
        ),
        "",
        *table(record, WORDS),
        "",
        "## Where a query has converged",
        "",
        wrap(
            f"If the refinement stopped where it comes within {converged[0]['tolerance']:g} (1 - cosine) of the last",
            f"vector for good, {sum(count >= 9 for count in kept)} of {len(kept)} queries had at least 9 of their",
            f"first 10 hits. The median query is there at step {np.median(steps):g} of 20.",
        ),
    ]


def wrap(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 130, break_long_words=False, break_on_hyphens=False)


def table(record: Mapping[str, Any], kinds: Sequence[str]) -> list[str]:
    rows = [
        "| removed | corpus | hits | drop | control's drop | difference [95%] | share of hits where it drops more |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        for corpus, found in record["statistics"].items():
            each = found.get(kind, {"hits": 0})
            if not each["hits"]:
                continue
            rows.append(
                f"| {kind} | {corpus} | {each['hits']} | {each['named']:.4f} | {each['control']:.4f} | "
                f"{each['difference']:+.4f} [{each['low']:+.4f}, {each['high']:+.4f}] | {each['share']:.0%} |"
            )
    return rows
