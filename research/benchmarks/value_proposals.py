"""How often the right values are proposed for an instruction, and how long that takes.

Values are proposed over a collection of sentences of the instruction's aspect and of three others of its domain.
`bank`: aspects of the shipped bank, each wording asked while the bank lacks it; `dev`: aspects that it does not hold.
A proposal is right that holds at least half of the true values: by name, or by meaning (a phrase whose plain vector has
a cosine of 0.7 at least with the true name).

    python -m research.benchmarks.value_proposals --bank data/train/aspects.jsonl.gz --dev data/dev/aspects.jsonl.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from app.documents.blobs import FolderBlobStore
from app.documents.library import Library
from app.ports.ledger import Ledger
from app.ports.parts import Embedder
from app.search.aspect_search import AspectSearch
from app.search.aspects import aspects
from app.search.value_proposals import MOST_PROPOSALS, ValueProposer
from app.search.value_syntax import parse_values
from app.settings import Settings
from app.testing import InMemoryVectorIndex
from app.types.documents import Point
from app.types.proposals import ValueProposal
from app.wiring.catalog import open_catalog
from app.wiring.embedding import LocalEmbedder
from embedder.command.standard_output import run_program
from embedder.model_info import DEFAULT_MODEL, ModelInfo
from embedder.refinement import Refinement
from ingest.readers import detect

_ALIKE = 0.7
_OTHERS, _SENTENCES = 3, 25  # aspects beside the asked one, and sentences of each
_TIMED = 20


class Outcome(NamedTuple):
    is_shown: bool
    by_name: bool
    by_meaning: bool
    is_first: bool  # whether the first proposal is right, by name


class KeptVectors:
    """An embedder that embeds no document twice, since the bank is made anew for every wording."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: dict[tuple[str, str, int], list[float]] = {}

    @property
    def info(self) -> ModelInfo:
        return self._embedder.info

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        return self._embedder.embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias)

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        new = [text for text in dict.fromkeys(texts) if (text, instruction, steps) not in self._kept]
        for text, vector in zip(
            new, self._embedder.embed_documents(new, instruction=instruction, steps=steps) if new else [], strict=True
        ):
            self._kept[text, instruction, steps] = vector
        return [self._kept[text, instruction, steps] for text in texts]


class Bench:
    """Collections whose points lie in memory, in a real catalog."""

    def __init__(self, catalog: Ledger, embedder: Embedder, home: Path) -> None:
        self.catalog, self.embedder = catalog, embedder
        self.index = InMemoryVectorIndex()
        self._library = Library(
            catalog=catalog,
            index=self.index,
            blobs=FolderBlobStore(home / "files"),
            embedder=embedder,
            detect_format=detect,
        )

    def collect(self, name: str, texts: Sequence[str]) -> None:
        made = self._library.create_collection(name, document_steps=0)
        vectors = self.embedder.embed_documents(texts, instruction="", steps=0)
        keys = ("document_id", "title", "uri", "ordinal", "start", "end", "page", "text_hash")
        points = [
            Point(
                str(uuid.uuid5(uuid.NAMESPACE_OID, text)),
                vector,
                {"page_content": text, "metadata": dict.fromkeys(keys, "")},
            )
            for text, vector in zip(texts, vectors, strict=True)
        ]
        self.index.upsert(made.active_index, points)

    def judge(self, proposals: Sequence[ValueProposal], true: Sequence[str]) -> Outcome:
        by_name = [self._holds(each, true, is_exact=True) for each in proposals]
        by_meaning = [self._holds(each, true, is_exact=False) for each in proposals]
        return Outcome(bool(proposals), any(by_name), any(by_meaning), bool(by_name) and by_name[0])

    def _holds(self, proposal: ValueProposal, true: Sequence[str], *, is_exact: bool) -> bool:
        phrases = [phrase for value in parse_values(proposal.values) for phrase in value.phrases]
        if is_exact:
            held = len({name.casefold() for name in true} & {phrase.casefold() for phrase in phrases})
        else:
            embedded = np.asarray(self.embedder.embed_documents([*true, *phrases], instruction="", steps=0))
            held = int(((embedded[: len(true)] @ embedded[len(true) :].T).max(axis=1) >= _ALIKE).sum())
        return 2 * held >= len(true)


def collection_of(aspect: dict[str, Any], rows: Sequence[dict[str, Any]], rng: random.Random) -> list[str]:
    others = [each for each in rows if each is not aspect and each["domain"] == aspect["domain"]]
    texts = []
    for each in (aspect, *rng.sample(others, _OTHERS)):
        own = [text for value in each["values"].values() for text in value]
        texts += rng.sample(own, min(_SENTENCES, len(own)))
    return list(dict.fromkeys(texts))


def measure(
    bench: Bench, name: str, rows: Sequence[dict[str, Any]], asked: Sequence[int], wordings: int
) -> list[Outcome]:
    """`rows` are all aspects of the split, `asked` those whose instructions are asked."""
    rng, found, bank = random.Random(0), [], aspects()
    whole = AspectSearch(bench.embedder, bank)
    for at in asked:
        row, collection = rows[at], f"{name}-{at}"
        bench.collect(collection, collection_of(row, rows, rng))
        for wording in rng.sample(row["instructions"], min(wordings, len(row["instructions"]))):
            search = whole
            if name == "bank":
                own = replace(bank[at], instructions=tuple(each for each in bank[at].instructions if each != wording))
                search = AspectSearch(bench.embedder, (*bank[:at], own, *bank[at + 1 :]))
            proposer = ValueProposer(bench.catalog, bench.index, bench.embedder, bank=search)
            found.append(bench.judge(proposer.propose(wording, collection), list(row["values"])))
    return found


def print_durations(bench: Bench, model: Embedder, instructions: Sequence[str], collection: str) -> None:
    proposer = ValueProposer(bench.catalog, bench.index, model)
    durations_ms = []
    for instruction in instructions:
        started = time.perf_counter()
        proposer.propose(instruction, collection)
        durations_ms.append(1000 * (time.perf_counter() - started))
    later = np.median(durations_ms[1:])
    print(f"first call {durations_ms[0] / 1000:.1f} s, then {later:.0f} ms (median of {len(durations_ms) - 1})")


def read_rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bank", type=Path, required=True, help="the bank's aspects, with sentences")
    parser.add_argument("--dev", type=Path, required=True, help="aspects that the bank does not hold")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--of-bank", type=int, default=200, help="how many aspects of the bank are asked for")
    parser.add_argument("--wordings", type=int, default=8, help="of each aspect")
    options = parser.parse_args()
    rows = {"bank": read_rows(options.bank), "dev": read_rows(options.dev)}
    if [each["aspect"] for each in rows["bank"]] != [each.name for each in aspects()]:
        parser.error(f"{options.bank} does not hold the aspects of the bank, in its order.")
    order = list(range(len(rows["bank"])))
    random.Random(1).shuffle(order)  # the ranking was chosen on aspects after the first 200
    asked = {"bank": order[: options.of_bank], "dev": list(range(len(rows["dev"])))}
    with TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder))
        model = LocalEmbedder(options.model)
        with open_catalog(settings) as catalog:
            bench = Bench(catalog, KeptVectors(model), settings.home)
            timed = [row["instructions"][0] for row in rows["dev"][: _TIMED + 1]]
            bench.collect("timed", collection_of(rows["dev"][0], rows["dev"], random.Random(0)))
            print_durations(bench, model, timed, "timed")
            print(f"| aspects | asked | shown | one of {MOST_PROPOSALS} right, by name | by meaning | first right |")
            print("|---|---|---|---|---|---|")
            for name in ("dev", "bank"):
                found = measure(bench, name, rows[name], asked[name], options.wordings)
                shares = [f"{100 * np.mean([each[at] for each in found]):.1f}" for at in range(4)]
                print(f"| {name} | {len(found)} | {' | '.join(shares)} |", flush=True)
        model.close()


if __name__ == "__main__":
    run_program(main)
