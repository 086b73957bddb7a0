"""Matches the passages of two searches and computes rank changes. Pure functions without HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.search.soft_tokens import group_refinement
from app.types.search import Hit, SearchRequest, SearchResult
from embedder.refinement_steps import RefinementStep
from ui.choices import Choices

PassageKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """One of the two searches: `name` is A or B, `lens` the name of its instruction."""

    name: str
    lens: str
    request: SearchRequest
    chosen: Choices


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """Results of one search: the displayed hits, and deeper ones to look up ranks."""

    result: SearchResult
    deeper: Sequence[Hit] = ()


@dataclass(frozen=True, slots=True)
class ComparedHit:
    """A hit of one side; `elsewhere` is its rank on the other side, None if not found there."""

    hit: Hit
    elsewhere: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The passages of both sides, with their ranks. `depth` is the number of known ranks on the other side."""

    left: tuple[ComparedHit, ...]
    right: tuple[ComparedHit, ...]
    depth: int

    @property
    def size(self) -> int:
        """The length of the longer list."""
        return max(len(self.left), len(self.right))

    @property
    def shared(self) -> int:
        return sum(1 for place in self.right if is_shown(place, self.left))

    @property
    def is_same(self) -> bool:
        return len(self.left) == len(self.right) and all(place.hit.rank == place.elsewhere for place in self.right)

    @property
    def risen(self) -> ComparedHit | None:
        """The hit with the biggest rise from left to right."""
        return _furthest(self.right)

    @property
    def fallen(self) -> ComparedHit | None:
        """The hit with the biggest drop from left to right."""
        return _furthest(self.left)


def compare(left: ComparedAnswer, right: ComparedAnswer) -> Comparison:
    is_one_collection = left.result.collection == right.result.collection
    ranks_left, ranks_right = _ranks(left, is_one_collection), _ranks(right, is_one_collection)
    return Comparison(
        tuple(ComparedHit(hit, ranks_right.get(_key(hit, is_one_collection))) for hit in left.result.hits),
        tuple(ComparedHit(hit, ranks_left.get(_key(hit, is_one_collection))) for hit in right.result.hits),
        depth=max(len(each) for each in (left.deeper, right.deeper, left.result.hits, right.result.hits)),
    )


def is_shown(place: ComparedHit, others: Sequence[ComparedHit]) -> bool:
    """Whether the other list also shows this passage."""
    return place.elsewhere is not None and place.elsewhere <= len(others)


def _ranks(answer: ComparedAnswer, is_one_collection: bool) -> Mapping[PassageKey, int]:
    """Ranks by passage key. Deeper hits rank after the displayed ones, even if the deeper search ranked them higher."""
    ranks: dict[PassageKey, int] = {}
    for hit in answer.result.hits:
        ranks.setdefault(_key(hit, is_one_collection), hit.rank)
    for hit in answer.deeper:
        ranks.setdefault(_key(hit, is_one_collection), max(hit.rank, len(answer.result.hits) + 1))
    return ranks


def _key(hit: Hit, is_one_collection: bool) -> PassageKey:
    """Passages of two collections never share an id; they match by source, position and text."""
    if is_one_collection:
        return (hit.chunk.id,)
    return hit.document.uri, str(hit.chunk.start), hit.chunk.text


def _furthest(places: Sequence[ComparedHit]) -> ComparedHit | None:
    moved = [place for place in places if place.elsewhere is not None and place.elsewhere > place.hit.rank]
    return max(moved, key=lambda place: ((place.elsewhere or 0) - place.hit.rank, -place.hit.rank), default=None)


def top_words(steps: Sequence[RefinementStep], count: int = 8) -> tuple[str, ...]:
    """The most probable refinement words without stop words, by probability summed over all steps."""
    weights: defaultdict[str, float] = defaultdict(float)
    for group in group_refinement(steps):
        for token in group.tokens:
            if not token.is_stop_word:
                weights[token.token] += token.weight
    return tuple(sorted(weights, key=lambda word: (-weights[word], word))[:count])
