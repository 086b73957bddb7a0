"""Takes the sentence or the word that an explanation names away, and one that it does not name, and embeds again.

What is measured is the drop of the cosine of query and chunk. Knows no corpora and no reports.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.search.soft_tokens import is_stop_word
from embedder import Encoder, RefinementStep, TextError
from embedder.text.sentences import sentence_spans

SUPPRESSED = -10.0
COMPARABLE = 2.0  # a control word has this many times the probability of the named one at most, and at least 1/this
RANDOM_DRAWS = 3
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that a query found. `vector` and `query_vector` are (D,), L2-normalised."""

    query: int
    query_text: str
    instruction: str
    query_vector: np.ndarray
    chunk: str
    vector: np.ndarray

    @property
    def score(self) -> float:
        return float(self.query_vector @ self.vector)


@dataclass(frozen=True, slots=True)
class Pair:
    """How much the cosine drops without what was named, and (mean of the draws) without something like it."""

    query: int
    named: float
    control: float


@dataclass(frozen=True, slots=True)
class SentenceDrops:
    """Of one hit, sentence by sentence: the cosine of the sentence alone, and the drop of the chunk's without it."""

    found: Found
    spans: Sequence[tuple[int, int]]
    alone: np.ndarray
    drops: np.ndarray


Namer = Callable[[SentenceDrops], int | None]


def without_sentences(hits: Sequence[Found], encoder: Encoder) -> list[SentenceDrops]:
    """Each sentence of every hit is taken away in turn. Hits of one sentence are left out."""
    several = [(hit, spans) for hit in hits if len(spans := sentence_spans(hit.chunk)) > 1]
    rest = [_cut(hit.chunk, [span]) for hit, spans in several for span in spans]
    sentences = [hit.chunk[start:end] for hit, spans in several for start, end in spans]
    vectors = encoder.encode_documents(rest).astype(np.float64)
    own = encoder.encode_documents(sentences, steps=1).astype(np.float64)
    found, place = [], 0
    for hit, spans in several:
        rows = slice(place, place := place + len(spans))
        found.append(
            SentenceDrops(hit, spans, own[rows] @ hit.query_vector, hit.score - vectors[rows] @ hit.query_vector)
        )
    return found


def pair_sentences(hits: Sequence[SentenceDrops], name: Namer, *, but: Namer = lambda _: None) -> list[Pair]:
    """The named sentence against the mean of up to three others nearest in length; `but` names one that is neither."""
    pairs = []
    for hit in hits:
        named, left_out = name(hit), but(hit)
        if named is None:
            continue
        length = [np.log(end - start) for start, end in hit.spans]
        others = sorted(
            (place for place in range(len(hit.spans)) if place not in (named, left_out)),
            key=lambda place: abs(length[place] - length[named]),
        )[:RANDOM_DRAWS]
        if others:
            pairs.append(Pair(hit.found.query, float(hit.drops[named]), float(hit.drops[others].mean())))
    return pairs


class WordAblation:
    """Suppresses words in refinements and deletes them from chunks."""

    def __init__(self, encoder: Encoder, *, seed: int) -> None:
        self._encoder = encoder
        self._random = random.Random(seed)
        self._cache: dict[tuple[str, str, str], np.ndarray] = {}

    def measure(self, hits: Sequence[Found]) -> dict[str, list[Pair]]:
        """By kind of garbage_item."""
        pairs: dict[str, list[Pair]] = {}
        deletions: list[tuple[str, Found, str, str]] = []
        for hit in hits:
            query = concepts_of(self._encoder.refine(hit.query_text, instruction=hit.instruction).steps)
            chunk = concepts_of(self._refine_chunk(hit).steps)
            for kind, pair in self._suppress(hit, query, chunk).items():
                pairs.setdefault(kind, []).append(pair)
            deletions += self._plan_deletions(hit, query, chunk)
        texts = [_without_word(hit.chunk, word) for _, hit, *both in deletions for word in both]
        vectors = self._encoder.encode_documents(texts).astype(np.float64) if texts else np.empty((0, 0))
        for (kind, hit, *_), row in zip(deletions, range(0, len(texts), 2), strict=True):
            named, control = (hit.score - vectors[row : row + 2] @ hit.query_vector).tolist()
            pairs.setdefault(kind, []).append(Pair(hit.query, named, control))
        return pairs

    def _suppress(self, hit: Found, query: Mapping[str, float], chunk: Mapping[str, float]) -> dict[str, Pair]:
        """The heaviest shared word that has controls of comparable probability on both sides."""
        for word in _by_weight(query, chunk):
            of_query = self._control(word, query, chunk)
            of_chunk = self._control(word, chunk, query)
            if of_query is None or of_chunk is None:
                continue
            try:
                queries = [self._query_without(hit, each) for each in (word, of_query)]
                chunks = [self._refine_chunk(hit, {each: SUPPRESSED}).vector.astype(float) for each in (word, of_chunk)]
            except TextError:  # a word none of whose pieces the model can speak
                continue
            return {
                "suppressed in the query": _pair(hit, *(hit.score - each @ hit.vector for each in queries)),
                "suppressed in the chunk": _pair(hit, *(hit.score - each @ hit.query_vector for each in chunks)),
                "suppressed in both": _pair(
                    hit, *(hit.score - one @ other for one, other in zip(queries, chunks, strict=True))
                ),
            }
        return {}

    def _plan_deletions(
        self, hit: Found, query: Mapping[str, float], chunk: Mapping[str, float]
    ) -> list[tuple[str, Found, str, str]]:
        """(kind, hit, named word, control word) of what is to be deleted from the chunk."""
        written = Counter(word.lower() for word in _WORD.findall(hit.chunk) if not is_stop_word(word.lower()))
        planned = []
        for word in _by_weight(query, chunk):
            unshared = {each: weight for each, weight in chunk.items() if each in written}
            if word in written and (control := self._control(word, {**unshared, word: chunk[word]}, query)):
                planned.append(("shared concept deleted", hit, word, control))
                break
        asked = {word.lower() for word in _WORD.findall(hit.query_text)}
        others = [word for word in written if word not in query and not _is_like_any(word, asked)]
        for kind, is_wanted in (
            ("word of the query's refinement and text deleted", lambda word: _is_like_any(word, asked)),
            ("word of the query's refinement alone deleted", lambda word: not _is_like_any(word, asked)),
        ):
            named = max(
                (word for word in written if word in query and is_wanted(word)), key=query.__getitem__, default=""
            )
            alike = [word for word in others if written[word] == written[named]]
            if named and alike:
                planned.append((kind, hit, named, self._random.choice(sorted(alike))))
        return planned

    def _control(self, word: str, own: Mapping[str, float], other: Mapping[str, float]) -> str | None:
        """A word of the one text's concepts that the other has not, of comparable probability."""
        alike = [
            each
            for each, weight in own.items()
            if each not in other and 1 / COMPARABLE <= weight / own[word] <= COMPARABLE
        ]
        return self._random.choice(sorted(alike)) if alike else None

    def _query_without(self, hit: Found, word: str) -> np.ndarray:
        key = (hit.query_text, hit.instruction, word)
        if key not in self._cache:
            found = self._encoder.refine(hit.query_text, instruction=hit.instruction, token_bias={word: SUPPRESSED})
            self._cache[key] = found.vector.astype(np.float64)
        return self._cache[key]

    def _refine_chunk(self, hit: Found, token_bias: Mapping[str, float] | None = None):
        """As the chunk was embedded."""
        contract = self._encoder.contract
        return self._encoder.refine(
            hit.chunk,
            instruction=contract.default_document_instruction,
            steps=contract.default_document_steps,
            token_bias=token_bias,
        )


def concepts_of(steps: Sequence[RefinementStep]) -> dict[str, float]:
    """Words that say something, of the 30 most probable of every step, with their summed probability."""
    words: Counter[str] = Counter()
    for step in steps:
        for token in step.tokens:
            if not is_stop_word(token.token) and len(token.token) > 1:
                words[token.token] += token.probability
    return dict(words)


def _by_weight(query: Mapping[str, float], chunk: Mapping[str, float]) -> list[str]:
    """Shared words by the product of what they weigh on each side."""
    return sorted(query.keys() & chunk.keys(), key=lambda word: (-query[word] * chunk[word], word))


def _is_like_any(word: str, asked: set[str]) -> bool:
    """Whether a word begins as one of the others, as inflected forms do."""
    return any(word[:4] == other[:4] for other in asked)


def _without_word(text: str, word: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "", text, flags=re.IGNORECASE)


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return text.strip()


def _pair(hit: Found, named: float, control: float) -> Pair:
    return Pair(hit.query, float(named), float(control))
