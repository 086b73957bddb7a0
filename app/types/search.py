"""What is asked of a search and what it answers: frozen values that cross folder borders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.types.documents import ChunkKind, Metadata
from app.types.values import LensValue, ValueReading, ValueSummary
from embedder.refinement_steps import MAX_BIAS, RefinementStep

MAX_LIMIT = 100
MAX_FILTERS = 32
MAX_FEEDBACK = 16  # chunks on either side
MAX_EXCLUSIONS, MAX_EXCLUSION_CHARACTERS = 8, 200
MAX_RERANK = 200  # candidates that are re-ranked
BOOST, SUPPRESS = 5.0, -MAX_BIAS  # what a word is given that a person only wants more, or not at all


class SearchMode(StrEnum):
    """By what chunks are found: the vector of the query, its words (BM25), or both, fused."""

    DENSE = "dense"
    SPARSE = "sparse"
    HYBRID = "hybrid"


DEFAULT_MODE = SearchMode.HYBRID  # of all interfaces: docs/evaluation/hybrid.md


class Leg(StrEnum):
    """What finds candidates of a hybrid search."""

    DENSE = "dense"  # the vector of the query under its instruction
    PLAIN = "plain"  # its vector in the space of the base model, where the collection has vectors of that
    SPARSE = "sparse"  # its words
    FEEDBACK = "feedback"  # a vector between the query and what the others found first


class ExclusionEffect(StrEnum):
    """What became of a phrase that a search is not to be about."""

    VALUE = "value"  # it is a value of the lens, of which no passage is shown
    RANK = "rank"  # passages about it rank lower
    OFFERED = "offered"  # nothing yet: the query may mean it, or not


class Match(StrEnum):
    """How well a passage answers a query, whatever it was found by."""

    WEAK = "weak"  # no better than what off-topic queries find
    FAIR = "fair"
    STRONG = "strong"


ALL_COLLECTIONS = "*"  # as the collection of a request: all that the caller may see


@dataclass(frozen=True, slots=True)
class SearchRequest:
    query: str
    collection: str
    instruction: str | None = None  # None: the model's default; "": no instruction
    steps: int | None = None  # None: the model's default
    limit: int = 10
    filters: Mapping[str, str] = field(default_factory=dict)
    token_bias: Mapping[str, float] = field(default_factory=dict)  # words that the query turns to, or from
    mode: SearchMode = DEFAULT_MODE
    like: tuple[str, ...] = ()  # ids of chunks that the hits should resemble
    unlike: tuple[str, ...] = ()  # ids of chunks that they should not
    values: tuple[LensValue, ...] = ()  # that the instruction tells apart
    value: str | None = None  # only passages of this one of them
    # So many of the first candidates are re-ranked under the instruction; 0: none. None: as usual.
    rerank: int | None = None
    per_document: int | None = None  # passages of one document; None: any number
    exclude: tuple[str, ...] = ()  # phrases that the hits should not be about
    detect_negation: bool = True  # "not about X" in the query is one of them
    prefer_prose: bool = True  # tables of numbers and references count less, unless the query asks for such
    fold_duplicates: bool = True  # near-identical passages go with the best of them
    diversity: float = 0.0  # 0: the ranking alone, to 1: unlike each other, whatever they answer
    among: frozenset[str] | None = None  # of ALL_COLLECTIONS only these, which are all that the caller may see


@dataclass(frozen=True, slots=True)
class HitDocument:
    id: str
    title: str
    uri: str
    metadata: Metadata
    collection: str = ""


@dataclass(frozen=True, slots=True)
class HitChunk:
    id: str
    text: str
    start: int
    end: int
    page: int | None  # of the sentence by which it was found; of its beginning where none is known
    context: str = ""  # title and headings, as they were embedded with it
    kind: ChunkKind = ChunkKind.PROSE
    page_starts: tuple[tuple[int, int], ...] = ()  # (character of the text, page that begins there), if on several
    is_damaged: bool = False  # its text is not the one that was embedded


@dataclass(frozen=True, slots=True)
class Highlight:
    """The sentence by which a chunk was found: characters [start, end) of the chunk's text."""

    start: int
    end: int
    score: float  # its cosine with the query; the BM25 that it adds, where only words found the chunk


@dataclass(frozen=True, slots=True)
class LegRank:
    """Where one leg of a hybrid search found a chunk: rank from 1, and the leg's own score (cosine, or BM25)."""

    leg: Leg
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`is_detected`: by what the query says. `passages` of the candidates were left out, or rank lower."""

    phrase: str
    effect: ExclusionEffect
    is_detected: bool = False
    value: str | None = None  # of the lens
    passages: int = 0


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A passage that says nearly the same as one that ranks above it."""

    document: HitDocument
    chunk: HitChunk


@dataclass(frozen=True, slots=True)
class Hit:
    rank: int  # from 1
    score: float  # cosine; BM25 in sparse mode; 0 to 1, fused, in hybrid mode
    document: HitDocument
    chunk: HitChunk
    why: Highlight | None = None
    legs: tuple[LegRank, ...] = ()  # those that found it, in hybrid mode
    value: ValueReading | None = None  # where the request names values
    rerank_score: float | None = None  # of the re-ranker alone, where it looked at the passage
    moved_from: int | None = None  # its rank before that, from 1
    match: Match | None = None  # None under an instruction, and by words alone where the model is away
    excluded: str | None = None  # the excluded phrase that it is most about, for which it ranks lower
    duplicates: tuple[NearDuplicate, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadLanguage:
    """Of a query, and the one that the model reads."""

    language: str
    read: str

    def __str__(self) -> str:
        return (
            f"This model reads {self.read}, and this looks like {self.language}. Ask in {self.read}, or find by words."
        )


@dataclass(frozen=True, slots=True)
class SearchResult:
    query: str
    instruction: str
    steps: int
    collection: str
    hits: tuple[Hit, ...]
    refinement: tuple[RefinementStep, ...]
    timings_ms: Mapping[str, float]
    mode: SearchMode = DEFAULT_MODE
    values: ValueSummary | None = None  # where the request names values
    notes: tuple[str, ...] = ()  # what was asked for and could not be done, and why
    match: Match | None = None  # of the hit that answers best
    exclusions: tuple[Exclusion, ...] = ()
    searched: str = ""  # the query without what it negates, which is what was searched for
    read_text: str = ""  # what of that was read, where the instruction left sentences out
    # What `explain` goes on with; no interface shows them.
    vector: Sequence[float] = field(default=(), repr=False)
    document_instruction: str = field(default="", repr=False)
    has_plain_vectors: bool = field(default=False, repr=False)
    is_ranked_by_refinement: bool = field(default=True, repr=False)  # or by the base model's vector, and words
    among: frozenset[str] | None = field(default=None, repr=False)  # as of the request
    unread: UnreadLanguage | None = field(default=None, repr=False)  # which `notes` tell, too
