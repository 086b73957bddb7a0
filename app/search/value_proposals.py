"""Proposes values for an instruction and a collection: from lenses and the bank of aspects, from the collection's
metadata, and from soft tokens of its texts. Uses no chat model."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from app.errors import InputError
from app.ports.catalog import Catalog
from app.ports.parts import Embedder, VectorIndex
from app.search.aspect_search import AspectSearch, embed_plainly, mean_of_nearest
from app.search.fingerprints import require_same_model
from app.search.lenses import lenses_of
from app.search.retrieval import is_by_gircse
from app.search.value_reader import KEPT_PHRASES, ValueReader
from app.search.value_syntax import MAX_VALUES, MIN_VALUES, parse_values
from app.search.value_words import values_of_words
from app.types.documents import Collection, FacetValue, require_text
from app.types.metadata_keys import DERIVED_KEYS
from app.types.proposals import MAX_INSTRUCTION_CHARACTERS, ProposalSource, ValueProposal
from embedder.lru import LRUCache

MOST_PROPOSALS = 3
SAMPLED_TEXTS = 200  # whose stored vectors are compared with values
REFINED_TEXTS = 24  # whose soft tokens the model computes
_REFINED_CHARACTERS, _REFINED_STEPS = 400, 3
_CANDIDATES = 12  # aspects compared with the texts
# Least cosine of the instruction with an aspect (mean of three wordings), a lens (mean of two), a metadata key (best).
_LEAST_OF_ASPECT, _LEAST_OF_LENS, _LEAST_OF_KEY = 0.35, 0.45, 0.45
_SAME_VALUES = 0.6  # share of values that two proposals may have in common
_KEPT_SAMPLES, _SAMPLE_AGE_S, _SMALL_SAMPLE_AGE_S = 16, 300.0, 10.0  # small collections may be growing
CLARITY_WEIGHT = 0.1  # added to a cosine; tuned on aspects that are not reported: docs/evaluation/lens-values.md
_MARKS = set("=,;·\n")  # separators of values and synonyms
_NUMBER = re.compile(r"[\d\s.,:/+-]+|true|false")


@dataclass(frozen=True, slots=True)
class _Sample:
    """Some texts of a collection with their stored vectors, and the values of its metadata."""

    texts: tuple[str, ...]
    vectors: np.ndarray  # (n, D)
    metadata: dict[str, tuple[str, ...]]
    taken_s: float

    @property
    def lasts_s(self) -> float:
        return _SAMPLE_AGE_S if len(self.texts) >= SAMPLED_TEXTS else _SMALL_SAMPLE_AGE_S


@dataclass(frozen=True, slots=True)
class _Candidate:
    values: tuple[str, ...]
    source: ProposalSource
    name: str
    similarity: float | None


class ValueProposer:
    """Proposes values; caches samples of collections. Thread-safe."""

    def __init__(
        self, catalog: Catalog, index: VectorIndex, embedder: Embedder, *, bank: AspectSearch | None = None
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._bank = bank or AspectSearch(embedder)
        self._reader = ValueReader(embedder)
        self._plain: LRUCache[str, np.ndarray] = LRUCache(KEPT_PHRASES)
        self._samples: LRUCache[tuple[str, str], _Sample] = LRUCache(_KEPT_SAMPLES)

    def propose(self, instruction: str, collection: str) -> tuple[ValueProposal, ...]:
        """Returns at most MOST_PROPOSALS, best first. Leaves out values that fit no text of a non-empty collection.

        Raises InputError, UnknownCollectionError, FingerprintMismatchError.
        """
        wanted = _check_instruction(instruction)
        known = self._catalog.collection(collection)
        require_same_model(known, self._embedder)
        sample = self._sample(known)
        [vector] = embed_plainly(self._embedder, [wanted])
        bank = [
            _Candidate(near.aspect.values, ProposalSource.BANK, near.aspect.name, near.similarity)
            for near in self._bank.nearest(vector, _CANDIDATES)
            if near.similarity >= _LEAST_OF_ASPECT
        ]
        metadata = self._rank(self._near_keys(vector, sample), sample, known)[:1]
        named = _different(self._rank([*self._near_lenses(vector), *bank], sample, known))
        found = _different([*named[: MOST_PROPOSALS - len(metadata)], *metadata])
        if len(found) < MOST_PROPOSALS:
            found = _different([*found, *self._rank(self._from_texts(wanted, sample), sample, known)])
        return tuple(found[:MOST_PROPOSALS])

    def _rank(self, candidates: Iterable[_Candidate], sample: _Sample, collection: Collection) -> list[ValueProposal]:
        """Best first, by similarity to the instruction plus how clearly the texts fall into the values."""
        scored = []
        for candidate in candidates:
            clarity = self._reader.clarity(sample.vectors, parse_values(candidate.values), collection=collection)
            if clarity.fitting or not sample.texts:
                score = (candidate.similarity or 0.0) + CLARITY_WEIGHT * clarity.score
                scored.append((score, candidate, clarity.fitting))
        scored.sort(key=lambda row: -row[0])
        return [
            ValueProposal(one.values, one.source, one.name, one.similarity, fitting, len(sample.texts))
            for _, one, fitting in scored
        ]

    def _near_keys(self, instruction: np.ndarray, sample: _Sample) -> list[_Candidate]:
        """Metadata keys whose name, alone or with the key's values, is near to the instruction."""
        keys = list(sample.metadata)
        if not keys:
            return []
        names = [key.replace("_", " ").replace("-", " ") for key in keys]
        described = [f"{name}: {', '.join(sample.metadata[key])}" for key, name in zip(keys, names, strict=True)]
        cosines = (self._plainly([*names, *described]) @ instruction).reshape(2, -1).max(axis=0)
        return [
            _Candidate(sample.metadata[key], ProposalSource.METADATA, key, float(cosine))
            for key, cosine in zip(keys, cosines, strict=True)
            if cosine >= _LEAST_OF_KEY
        ]

    def _near_lenses(self, instruction: np.ndarray) -> list[_Candidate]:
        found = []
        for lens in lenses_of(self._catalog):
            names = ", ".join(value.name for value in parse_values(lens.values))
            wordings = [lens.query_instruction, *([lens.note] if lens.note else []), names, f"{lens.name}: {names}"]
            if names and (similarity := mean_of_nearest(self._plainly(wordings) @ instruction, 2)) >= _LEAST_OF_LENS:
                found.append(_Candidate(tuple(lens.values), ProposalSource.LENS, lens.name, similarity))
        return found

    def _plainly(self, texts: list[str]) -> np.ndarray:
        """Like `embed_plainly`, with a cache: (n, D)."""
        known = {text: vector for text in texts if (vector := self._plain.get(text)) is not None}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            fresh = dict(zip(new, embed_plainly(self._embedder, new), strict=True))
            self._plain.keep(fresh)
            known |= fresh
        return np.stack([known[text] for text in texts])

    def _from_texts(self, instruction: str, sample: _Sample) -> list[_Candidate]:
        info = self._embedder.info
        if not 1 <= _REFINED_STEPS <= info.max_steps:
            return []
        refinements = [
            self._embedder.embed_query(text[:_REFINED_CHARACTERS], instruction=instruction, steps=_REFINED_STEPS)
            for text in sample.texts[:REFINED_TEXTS]
        ]
        values = values_of_words(refinements, lambda words: embed_plainly(self._embedder, words))
        return [_Candidate(values, ProposalSource.TEXTS, "", None)] if len(values) >= MIN_VALUES else []

    def _sample(self, collection: Collection) -> _Sample:
        """Samples the collection; cached for a while. Point ids are hashes of texts, so the first ids are a random
        sample."""
        key = collection.name, collection.active_index
        kept = self._samples.get(key)
        if kept is None or time.monotonic() - kept.taken_s > kept.lasts_s:
            ids = list(islice(self._index.point_ids(collection.active_index), SAMPLED_TEXTS))
            points = sorted(self._index.retrieve(collection.active_index, ids), key=lambda point: point.id)
            own = [point for point in points if is_by_gircse(point.payload)]
            kept = _Sample(
                tuple(str(point.payload["page_content"]) for point in own),
                np.asarray([point.vector for point in own], dtype=np.float32).reshape(
                    len(own), self._embedder.info.dimension
                ),
                _choices(self._catalog.facets(collection.name, without=DERIVED_KEYS)),
                time.monotonic(),
            )
            self._samples.keep({key: kept})
        return kept


def _check_instruction(instruction: str) -> str:
    require_text(instruction, name="instruction")
    if not instruction.strip():
        raise InputError("The instruction is empty: write how texts should be distinguished.")
    if len(instruction) > MAX_INSTRUCTION_CHARACTERS:
        raise InputError(
            f"The instruction has {len(instruction):,} characters; values are proposed for at most "
            f"{MAX_INSTRUCTION_CHARACTERS:,}."
        )
    return instruction.strip()


def _choices(facets: Mapping[str, Sequence[FacetValue]]) -> dict[str, tuple[str, ...]]:
    """Metadata keys whose values are words (not numbers) and form valid values of a lens."""
    choices = {}
    for key, values in facets.items():
        words = [facet.value for facet in values if not _NUMBER.fullmatch(facet.value)]
        names = [word for word in words if not set(word) & _MARKS]
        if MIN_VALUES <= len(names) == len(values) <= MAX_VALUES and _is_lens(names):
            choices[key] = tuple(names)
    return choices


def _is_lens(values: Sequence[str]) -> bool:
    try:
        parse_values(values)
    except InputError:
        return False
    return True


def _different(proposals: Iterable[ValueProposal]) -> list[ValueProposal]:
    """Drops proposals that share most of their values with an earlier one."""
    kept: list[ValueProposal] = []
    for proposal in proposals:
        names = {value.casefold() for value in proposal.values}
        others = [{value.casefold() for value in other.values} for other in kept]
        if all(len(names & other) <= _SAME_VALUES * min(len(names), len(other)) for other in others):
            kept.append(proposal)
    return kept
