"""Two answers to one query, joined passage by passage: how ranks moved. Pure; knows nothing of how it is drawn."""

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
    """One of the two ways of looking: `name` is A or B, `lens` what its instruction is called."""

    name: str
    lens: str
    request: SearchRequest
    chosen: Choices


@dataclass(frozen=True, slots=True)
class Answer:
    """What one way of looking found: the hits that are shown, and more of them, without which no rank is known."""

    result: SearchResult
    deeper: Sequence[Hit] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A hit of one answer; `elsewhere` is its rank in the other one, None where that did not find it."""

    hit: Hit
    elsewhere: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`depth` is how far down the ranks of the other answer are known."""

    left: tuple[Place, ...]
    right: tuple[Place, ...]
    depth: int

    @property
    def size(self) -> int:
        """The k of overlap@k: as many passages as the longer list shows."""
        return max(len(self.left), len(self.right))

    @property
    def shared(self) -> int:
        return sum(1 for place in self.right if is_shown(place, self.left))

    @property
    def overlap(self) -> float:
        return self.shared / self.size if self.size else 0.0

    @property
    def is_same(self) -> bool:
        return len(self.left) == len(self.right) and all(place.hit.rank == place.elsewhere for place in self.right)

    @property
    def risen(self) -> Place | None:
        """Of the right answer: the one that stood the most ranks lower on the left."""
        return _furthest(self.right)

    @property
    def fallen(self) -> Place | None:
        """Of the left answer: the one that stands the most ranks lower on the right."""
        return _furthest(self.left)


def compare(left: Answer, right: Answer) -> Comparison:
    is_one_collection = left.result.collection == right.result.collection
    ranks_left, ranks_right = _ranks(left, is_one_collection), _ranks(right, is_one_collection)
    return Comparison(
        tuple(Place(hit, ranks_right.get(_key(hit, is_one_collection))) for hit in left.result.hits),
        tuple(Place(hit, ranks_left.get(_key(hit, is_one_collection))) for hit in right.result.hits),
        depth=max(len(each) for each in (left.deeper, right.deeper, left.result.hits, right.result.hits)),
    )


def is_shown(place: Place, others: Sequence[Place]) -> bool:
    """Whether the other list shows the passage, too."""
    return place.elsewhere is not None and place.elsewhere <= len(others)


def _ranks(answer: Answer, is_one_collection: bool) -> Mapping[PassageKey, int]:
    """Hits that are shown decide; deeper ones follow after them, wherever a search for more would have put them."""
    ranks: dict[PassageKey, int] = {}
    for hit in answer.result.hits:
        ranks.setdefault(_key(hit, is_one_collection), hit.rank)
    for hit in answer.deeper:
        ranks.setdefault(_key(hit, is_one_collection), max(hit.rank, len(answer.result.hits) + 1))
    return ranks


def _key(hit: Hit, is_one_collection: bool) -> PassageKey:
    """Chunks of two collections never share an id: there it is the same passage if source, place and text are."""
    if is_one_collection:
        return (hit.chunk.id,)
    return hit.document.uri, str(hit.chunk.start), hit.chunk.text


def _furthest(places: Sequence[Place]) -> Place | None:
    moved = [place for place in places if place.elsewhere is not None and place.elsewhere > place.hit.rank]
    return max(moved, key=lambda place: ((place.elsewhere or 0) - place.hit.rank, -place.hit.rank), default=None)


def top_words(steps: Sequence[RefinementStep], count: int = 8) -> tuple[str, ...]:
    """The words of substance that a query was read as, by the probability summed over all steps."""
    weights: defaultdict[str, float] = defaultdict(float)
    for group in group_refinement(steps):
        for token in group.tokens:
            if not token.is_stop_word:
                weights[token.token] += token.weight
    return tuple(sorted(weights, key=lambda word: (-weights[word], word))[:count])
