"""Builds contrasts: two documents each share one aspect with the query, and only the instruction says which one
counts."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from embedder.training.data import Aspect, TrainingData

_TRIES = 12  # draws of a text with the wanted labels before skipping the query
_SHORT_TEXT = 160  # characters: two joined texts still fit a training prompt
Row = tuple[str, str, str]  # query, document that shares only the wanted aspect, document that shares only the other


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two aspects of the texts of one task."""

    wanted: Aspect
    other: Aspect
    labels: Mapping[str, frozenset[str]]  # of the wanted aspect
    other_labels: Mapping[str, frozenset[str]]

    def draw(self, rng: random.Random, label: str) -> Row | None:
        query = rng.choice(self.wanted.texts[label])
        known = self.other_labels.get(query)
        if not known:
            return None
        shared = sorted(known & self.other.texts.keys())
        if not shared:
            return None
        positive = _find(rng, self.wanted.texts[label], query, self.other_labels, known)
        negative = _find(rng, self.other.texts[shared[0]], query, self.labels, self.labels[query])
        return (query, positive, negative) if positive and negative else None


def find_contrasts(data: TrainingData, *, seed: int) -> dict[str, Contrast]:
    """`task:aspect|other` -> Contrast, for independent aspects; nested ones (intent within domain) are skipped."""
    rng = random.Random(f"contrasts:{seed}")
    found = {}
    for wanted in data.aspects:
        for other in data.aspects:
            if wanted.task != other.task or wanted.name == other.name:
                continue
            labels, others = (data.labels[each.task, each.name] for each in (wanted, other))
            contrast = Contrast(wanted, other, labels, others)
            names = sorted(wanted.texts)
            hits = sum(contrast.draw(rng, rng.choice(names)) is not None for _ in range(100))
            if hits >= 30:
                found[f"{wanted.task}:{wanted.name}|{other.name}"] = contrast
    return found


def _find(
    rng: random.Random,
    pool: Sequence[str],
    query: str,
    labels: Mapping[str, frozenset[str]],
    forbidden: frozenset[str],
) -> str | None:
    for _ in range(_TRIES):
        text = rng.choice(pool)
        if text != query and (known := labels.get(text)) and not known & forbidden:
            return text
    return None


def short_aspects(data: TrainingData) -> dict[str, Aspect]:
    """`task:aspect` -> the aspect with only its short texts, if at least three labels have three of them."""
    short = {}
    for aspect in data.aspects:
        known = data.labels[aspect.task, aspect.name]
        texts = {
            label: kept
            for label, members in aspect.texts.items()
            if len(kept := tuple(text for text in members if len(text) <= _SHORT_TEXT and len(known[text]) == 1)) > 2
        }
        if len(texts) > 2:
            short[f"{aspect.task}:{aspect.name}"] = replace(aspect, texts=texts)
    return short


def compose(rng: random.Random, wanted: Aspect, other: Aspect, label: str, unlike: str) -> Row:
    """Composes query, positive and negative, each of a text of the aspect `wanted` and a text of `other`. The aspects
    belong to two tasks.

    Query and positive share `label` and differ in the other aspect. The negative has `unlike` in place of `label`, and
    shares the other aspect's label with the query.
    """
    others = rng.sample(sorted(other.texts), 2)
    query, alike = rng.sample(wanted.texts[label], 2)
    first, second = rng.sample(other.texts[others[0]], 2)
    third = rng.choice(other.texts[others[1]])
    return (
        join_texts(rng, query, first),
        join_texts(rng, alike, third),
        join_texts(rng, rng.choice(wanted.texts[unlike]), second),
    )


def join_texts(rng: random.Random, one: str, other: str) -> str:
    parts = [one.strip(), other.strip()]
    rng.shuffle(parts)
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts)
