"""What lens values tell apart on aspects that no model of ours was trained on, in the space of stored vectors.

`names`: texts whose own value is the nearest name; `composed`: two sentences of two aspects joined, where the text that
shares the wanted value must be more alike than the one that shares the other (chance 50), by the cosine of vectors and
by that of distributions, from vectors and from the model's soft tokens under the instruction, of which only the words
of the names are kept; `fits`: texts that fit one of their aspect's values, and texts of other aspects that fit none.

    python -m research.benchmarks.lens_values --aspects data/dev/aspects.jsonl.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from app.search.aspects import background_phrases
from app.search.value_distributions import QUERY_TEMPERATURE, fits
from embedder import Encoder, load_encoder
from embedder.command.standard_output import run_program
from embedder.model_info import DEFAULT_MODEL
from embedder.text.mentions import mentions
from embedder.text.relevance import distributions, similarities, value_cosines

_BACKGROUND = 256
_OTHERS = 6  # aspects whose texts are asked for values that they do not have


class Composed(NamedTuple):
    """Texts of two sentences: the positive shares the value of the aspect alone, the negative that of the other."""

    aspect: int
    query: str
    positive: str
    negative: str


def compose(aspects: Sequence[dict], rng: random.Random, *, each: int) -> list[Composed]:
    found = []
    for at, aspect in enumerate(aspects):
        for _ in range(each):
            other = rng.choice([one for one in aspects if one["domain"] != aspect["domain"]])
            own_query, own_same, own_else = _sentences(aspect, rng)
            other_query, other_same, other_else = _sentences(other, rng)
            found.append(
                Composed(at, f"{own_query} {other_query}", f"{own_same} {other_else}", f"{own_else} {other_same}")
            )
    return found


def _sentences(aspect: dict, rng: random.Random) -> tuple[str, str, str]:
    """Two of one value and one of another."""
    value, otherwise = rng.sample(sorted(aspect["values"]), 2)
    first, second = rng.sample(aspect["values"][value], 2)
    return first, second, rng.choice(aspect["values"][otherwise])


def among_names(encoder: Encoder, texts: Sequence[str], instruction: str, names: Sequence[str]) -> np.ndarray:
    """(n, V): how much of the soft tokens of all steps is of each name's words, the heaviest of them, in parts of 1."""
    entries = {word: at for at, word in enumerate(encoder.soft_token_words())}
    own = [[entries[word] for word in name.lower().split() if word in entries] for name in names]
    weights = np.zeros((len(texts), len(names)))

    def on_step(rows: Sequence[int], step: int, soft_token: torch.Tensor) -> None:
        for column, words in enumerate(own):
            if words:
                weights[list(rows), column] += soft_token[:, words].amax(dim=1).double().numpy()

    steps = encoder.contract.default_query_steps
    encoder.watch_soft_tokens(texts, on_step, instruction=instruction, steps=steps)
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)


def by_soft_tokens(encoder: Encoder, aspects: Sequence[dict], triplets: Sequence[Composed]) -> list[bool]:
    found = []
    for at, aspect in enumerate(aspects):
        own = [each for each in triplets if each.aspect == at]
        texts = [text for each in own for text in each[1:]]
        read = among_names(encoder, texts, aspect["instructions"][0], list(aspect["values"])).reshape(len(own), 3, -1)
        for three in read:
            _, positive, negative = similarities(three, three[0])
            found.append(bool(positive > negative))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aspects", type=Path, required=True, help="a file of aspects with values and sentences")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--composed", type=int, default=15, help="of each aspect")
    options = parser.parse_args()
    with gzip.open(options.aspects, "rt", encoding="utf-8") as file:
        aspects = [json.loads(line) for line in file]
    encoder, rng = load_encoder(options.model), random.Random(0)
    background = encoder.encode_documents(background_phrases(_BACKGROUND))
    names = [encoder.encode_documents(list(aspect["values"])) for aspect in aspects]
    texts = [[(text, value) for value in aspect["values"] for text in aspect["values"][value]] for aspect in aspects]
    vectors = [encoder.encode_documents([text for text, _ in each]) for each in texts]
    right: list[bool] = []
    own: list[bool] = []
    other: list[bool] = []
    for at, aspect in enumerate(aspects):
        values, owners = list(aspect["values"]), range(len(aspect["values"]))
        cosines = value_cosines(vectors[at], names[at], owners)
        hits = [values[best] == value for best, (_, value) in zip(cosines.argmax(axis=1), texts[at], strict=True)]
        right += hits
        own += fits(cosines, vectors[at], background)[np.array(hits)].tolist()
        for elsewhere in rng.sample([each for each in range(len(aspects)) if each != at], _OTHERS):
            elsewhere_cosines = value_cosines(vectors[elsewhere], names[at], owners)
            other += fits(elsewhere_cosines, vectors[elsewhere], background).tolist()
    triplets = compose(aspects, rng, each=options.composed)
    found = encoder.encode_documents([text for each in triplets for text in each[1:]]).reshape(len(triplets), 3, -1)
    by_vector = [query @ positive > query @ negative for query, positive, negative in found]
    by_values, by_product = [], []
    for triplet, three in zip(triplets, found, strict=True):
        values, owners = list(aspects[triplet.aspect]["values"]), range(len(names[triplet.aspect]))
        p = distributions(value_cosines(three, names[triplet.aspect], owners))
        _, positive, negative = similarities(p, p[0])
        by_values.append(positive > negative)
        cosines = value_cosines(three, names[triplet.aspect], owners, mentions(triplet[1:], values))
        p = distributions(cosines[1:])
        positive, negative = similarities(p, distributions(cosines[:1], QUERY_TEMPERATURE)[0])
        by_product.append(positive > negative)
    print(f"{options.model}, {len(aspects)} aspects, {len(right)} texts, {len(triplets)} composed triplets")
    print("| measure | of 100 |\n|---|---|")
    for name, outcomes in (
        ("names: the nearest is the text's own", right),
        ("composed: by the cosine of vectors", by_vector),
        ("composed: by the cosine of distributions", by_values),
        ("composed: as searches read values", by_product),
        ("composed: by the cosine of soft tokens among the names", by_soft_tokens(encoder, aspects, triplets)),
        ("fits: texts with the right name that fit it", own),
        ("fits: texts of other aspects that fit none", [not each for each in other]),
    ):
        print(f"| {name} | {100 * np.mean(outcomes):.1f} |")


if __name__ == "__main__":
    run_program(main)
