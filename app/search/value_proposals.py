"""Proposes values for an instruction over a collection: from lenses and the bank of aspects, from the collection's
metadata, and from the model's words on its texts. No chat model takes part."""

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
from app.search.retrieval import is_own
from app.search.value_reader import KEPT_PHRASES, ValueReader
from app.search.value_syntax import MAX_VALUES, MIN_VALUES, parse_values
from app.search.value_words import values_of_words
from app.types.documents import Collection, FacetValue, require_text
from app.types.proposals import MAX_INSTRUCTION_CHARACTERS, ProposalSource, ValueProposal
from embedder.lru import LRUCache

MOST_PROPOSALS = 3
SAMPLED_TEXTS = 200  # whose stored vectors are compared with values
REFINED_TEXTS = 24  # that the model is asked about
_REFINED_CHARACTERS, _REFINED_STEPS = 400, 3
_CANDIDATES = 12  # aspects that are compared with the texts
# Of an instruction and wordings that mean something like it: three of an aspect, two of a lens, the best of a key.
_LEAST_OF_ASPECT, _LEAST_OF_LENS, _LEAST_OF_KEY = 0.35, 0.45, 0.45
_SAME_VALUES = 0.6  # share of values that two proposals may have in common
_KEPT_SAMPLES, _SAMPLE_AGE_S, _SMALL_SAMPLE_AGE_S = 16, 300.0, 10.0  # a small collection may be growing
CLARITY_WEIGHT = 0.1  # beside a cosine; chosen on aspects that are not reported: docs/evaluation/lens-values.md
_MARKS = set("=,;·\n")  # that part values and their synonyms
_NUMBER = re.compile(r"[\d\s.,:/+-]+|true|false")


@dataclass(frozen=True, slots=True)
class _Sample:
    """Some of a collection's texts, with the vectors that its index holds, and the values of its metadata."""

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
    """Safe to use from several threads."""

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
        """At most MOST_PROPOSALS, best first; what fits no text of the collection is left out, unless it has none.

        Raises InputError, UnknownCollectionError, FingerprintMismatchError.
        """
        wanted = _check_instruction(instruction)
        known = self._catalog.collection(collection)
        require_same_model(known, self._embedder)
        sample = self._sample(known)
        [vector] = embed_plainly(self._embedder, [wanted])
        bank = [
            _Candidate(each.aspect.values, ProposalSource.BANK, each.aspect.name, each.similarity)
            for each in self._bank.nearest(vector, _CANDIDATES)
            if each.similarity >= _LEAST_OF_ASPECT
        ]
        metadata = self._rank(self._near_keys(vector, sample), sample, known)[:1]
        named = _different(self._rank([*self._near_lenses(vector), *bank], sample, known))
        found = _different([*named[: MOST_PROPOSALS - len(metadata)], *metadata])
        if len(found) < MOST_PROPOSALS:
            found = _different([*found, *self._rank(self._from_texts(wanted, sample), sample, known)])
        return tuple(found[:MOST_PROPOSALS])

    def _rank(self, candidates: Iterable[_Candidate], sample: _Sample, collection: Collection) -> list[ValueProposal]:
        """Best first, by how near they are to the instruction and how clearly the texts fall into their values."""
        scored = []
        for each in candidates:
            clarity = self._reader.clarity(sample.vectors, parse_values(each.values), collection=collection)
            if clarity.fitting or not sample.texts:
                score = (each.similarity or 0.0) + CLARITY_WEIGHT * clarity.score
                scored.append((score, each, clarity.fitting))
        scored.sort(key=lambda row: -row[0])
        return [
            ValueProposal(each.values, each.source, each.name, each.similarity, fitting, len(sample.texts))
            for _, each, fitting in scored
        ]

    def _near_keys(self, instruction: np.ndarray, sample: _Sample) -> list[_Candidate]:
        """Keys of metadata that mean something like the instruction, alone or with their values."""
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
        """(n, D); the vectors of the last texts are remembered."""
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
        """Taken anew after a while. Ids of points are hashes of their texts, so the first ones are any."""
        key = collection.name, collection.active_index
        kept = self._samples.get(key)
        if kept is None or time.monotonic() - kept.taken_s > kept.lasts_s:
            ids = list(islice(self._index.point_ids(collection.active_index), SAMPLED_TEXTS))
            points = sorted(self._index.retrieve(collection.active_index, ids), key=lambda each: each.id)
            own = [each for each in points if is_own(each.payload)]
            kept = _Sample(
                tuple(str(each.payload["page_content"]) for each in own),
                np.asarray([each.vector for each in own], dtype=np.float32).reshape(
                    len(own), self._embedder.info.dimension
                ),
                _choices(self._catalog.facets(collection.name)),
                time.monotonic(),
            )
            self._samples.keep({key: kept})
        return kept


def _check_instruction(instruction: str) -> str:
    require_text(instruction, name="instruction")
    if not instruction.strip():
        raise InputError("The instruction is empty: write what should be told apart.")
    if len(instruction) > MAX_INSTRUCTION_CHARACTERS:
        raise InputError(
            f"The instruction has {len(instruction):,} characters; values are proposed for at most "
            f"{MAX_INSTRUCTION_CHARACTERS:,}."
        )
    return instruction.strip()


def _choices(facets: Mapping[str, Sequence[FacetValue]]) -> dict[str, tuple[str, ...]]:
    """Keys whose values are words, and can be values of a lens."""
    choices = {}
    for key, values in facets.items():
        names = [each.value for each in values if not _NUMBER.fullmatch(each.value) and not set(each.value) & _MARKS]
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
    """Without those that share most of their values with an earlier one."""
    kept: list[ValueProposal] = []
    for each in proposals:
        names = {value.casefold() for value in each.values}
        others = [{value.casefold() for value in other.values} for other in kept]
        if all(len(names & other) <= _SAME_VALUES * min(len(names), len(other)) for other in others):
            kept.append(each)
    return kept
