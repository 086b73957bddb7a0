"""Search requests and results (immutable)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from app.types.defaults import DEFAULT_COLLECTION
from app.types.documents import ChunkKind, Metadata
from app.types.options import Option, Shown, options_of
from app.types.values import MAX_VALUES, LensValue, ValueReading, ValueSummary
from embedder.refinement_steps import MAX_BIAS, MAX_BIASED_WORDS, RefinementStep

MAX_QUERY_CHARACTERS = 100_000
MAX_LIMIT = 100
MAX_FILTERS = 32
MAX_FEEDBACK = 16  # chunks in `like`, and in `unlike`
MAX_EXCLUSIONS, MAX_EXCLUSION_CHARACTERS = 8, 200
MAX_RERANK = 200  # candidates that are re-ranked
BOOST, SUPPRESS = 5.0, -MAX_BIAS  # biases of a word that the user boosts or suppresses by a click


class SearchMode(StrEnum):
    """How chunks are found: by the query's vector (dense), by its words (sparse, BM25), or by both, fused (hybrid)."""

    DENSE = "dense"
    SPARSE = "sparse"
    HYBRID = "hybrid"


DEFAULT_MODE = SearchMode.HYBRID  # of all interfaces: docs/evaluation/hybrid.md


class Leg(StrEnum):
    """One of the searches whose rankings a hybrid search fuses."""

    DENSE = "dense"  # by the query's vector under its instruction
    PLAIN = "plain"  # by the query's base-model vector, if the collection has base-model vectors
    SPARSE = "sparse"  # by the query's words (BM25)
    FEEDBACK = "feedback"  # by the query's vector, moved towards the first hits of the other legs


class ExclusionEffect(StrEnum):
    """The effect of an excluded phrase on the hits."""

    VALUE = "value"  # the phrase names a value of the lens; passages with this value are left out
    RANK = "rank"  # passages about the phrase rank lower
    OFFERED = "offered"  # none: the query may not mean it as an exclusion, so the user has to confirm it


class Match(StrEnum):
    """How well a passage answers a query, whichever mode or leg found it."""

    WEAK = "weak"  # no better than the hits of off-topic queries
    FAIR = "fair"
    STRONG = "strong"


ALL_COLLECTIONS = "*"  # the `collection` of a request that searches all collections that the caller may see


Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]
Phrase = Annotated[str, Field(min_length=1, max_length=MAX_EXCLUSION_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search. Every field with a `Field` is an option of all interfaces: REST, agents, the command line, saved
    searches, the search page and its address.

    The interfaces validate the options. Requests made by code need no validation, so this is a plain dataclass: it is
    five times as fast to create as a pydantic model.
    """

    query: Annotated[
        str,
        # Only documents the limits: `check_request` checks them, with messages that say what to do.
        Field(
            examples=["I still haven't received my new card"],
            json_schema_extra={"minLength": 1, "maxLength": MAX_QUERY_CHARACTERS},
        ),
        Shown(
            command="What you are looking for.",
            agents="What to look for: words, a question, or a whole text.",
            parameter="q",
        ),
    ]
    collection: Annotated[
        str,
        Field(
            description="Collection to search. `*`: all collections of the current model that the caller may see.",
            examples=["sample"],
        ),
        Shown(
            command="Collection to search; '*': all of them.",
            flags=("--collection", "-c"),
            agents="Collection to search; list_collections names them. *: all of them.",
            parameter="c",
        ),
    ] = DEFAULT_COLLECTION
    instruction: Annotated[
        str | None,  # None: the model's default; "": no instruction
        Field(
            description="What counts as similar. Omitted: the model's default. Empty: no instruction.",
            examples=["Identify the feeling that the message expresses"],
        ),
        Shown(
            command="What counts as similar. Default: the model's own; '': none.",
            flags=("--instruction", "-i"),
            parameter="i",
        ),
    ] = None
    steps: Annotated[
        int | None,  # None: the model's default
        Field(ge=0, description="Refinement steps. Omitted: the model's default. 0: the base model's vector."),
        Shown(
            command="Refinement steps. Default: the model's own.",
            agents="Refinement steps. Omitted: the model's default.",
            parameter="k",
        ),
    ] = None
    limit: Annotated[
        int,
        Field(ge=1, le=MAX_LIMIT),
        Shown(
            command=f"How many hits, 1 to {MAX_LIMIT}.",
            flags=("--limit", "-n"),
            agents="Maximum number of hits.",
            parameter="n",
        ),
    ] = 10
    filters: Annotated[
        Mapping[str, str],
        Field(
            description="Metadata that documents must have, by key.", json_schema_extra={"maxProperties": MAX_FILTERS}
        ),
        Shown(
            command="Only documents with this metadata. Repeatable.",
            flags=("--filter",),
            metavar="KEY=VALUE",
        ),
    ] = field(default_factory=dict)
    token_bias: Annotated[
        Mapping[str, Bias],
        Field(
            description=(
                "Word → weight. Above 0, passages about the word rank higher; below 0, lower. The "
                "effect is full from 5, or from -5."
            ),
            json_schema_extra={"maxProperties": MAX_BIASED_WORDS},
        ),
    ] = field(default_factory=dict)
    mode: Annotated[
        SearchMode,
        Field(description="hybrid: by vectors and words. dense: by one vector. sparse: by words."),
        Shown(
            command="By the vector of the query (dense), by its words (sparse), or by both.",
            agents="By meaning, by words (sparse), or both.",
            parameter="m",
        ),
    ] = DEFAULT_MODE
    like: Annotated[
        tuple[str, ...],
        Field(max_length=MAX_FEEDBACK, description="Ids of chunks that the hits should resemble."),
        Shown(command="More like this chunk, by id. Repeatable.", metavar="CHUNK"),
    ] = field(default_factory=tuple)
    unlike: Annotated[
        tuple[str, ...],
        Field(max_length=MAX_FEEDBACK, description="Ids of chunks that the hits should not resemble."),
        Shown(command="Less like this chunk. Repeatable.", metavar="CHUNK"),
    ] = field(default_factory=tuple)
    values: tuple[LensValue, ...] = ()  # parsed from `WrittenLens.values`
    value: Annotated[
        str | None,
        Field(description="Only passages with this value. `other`: passages that fit no value."),
        Shown(command="Only passages with this value; 'other': passages that fit no value."),
    ] = None
    rerank: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_RERANK,
            description=(
                "Re-rank this many of the first candidates under the instruction. 0: none. Omitted: "
                "GIRCSE_RERANK_CANDIDATES for a hybrid search with an instruction that changes what is similar."
            ),
            examples=[50],
        ),
        Shown(
            command="Re-rank the first N candidates under the instruction. 0: none. Default: 20.",
            metavar="N",
            agents="Re-rank this many candidates under the instruction. 0: none.",
            parameter="r",
        ),
    ] = None
    per_document: Annotated[
        int | None,
        Field(ge=1, description="Maximum number of passages per document. Omitted: any number.", examples=[1]),
        Shown(
            command="At most N passages per document. Default: any number.",
            metavar="N",
        ),
    ] = None
    exclude: Annotated[
        tuple[Phrase, ...],
        Field(
            max_length=MAX_EXCLUSIONS,
            description=(
                "Phrases that hits should not be about. Passages about one rank lower; if it is one "
                "of the values, its passages are left out."
            ),
            examples=[["New York"]],
        ),
        Shown(
            command="Passages about PHRASE rank lower. Repeatable.",
            metavar="PHRASE",
            agents="Phrases that hits should not be about.",
        ),
    ] = field(default_factory=tuple)
    detect_negation: Annotated[
        bool,
        Field(
            description=(
                "Read “jazz, not about New York” as jazz, and add New York to `exclude`; `exclusions` "
                "of the answer shows it. False: take the query literally."
            )
        ),
        Shown(
            command="Read “jazz, not about New York” as jazz, and exclude New York.",
            agents="Read “jazz, not about New York” as jazz, and exclude New York.",
        ),
    ] = True
    prefer_prose: Annotated[
        bool,
        Field(
            description="Rank tables of numbers and references (`chunk.kind`) lower, unless the query asks for them."
        ),
        Shown(
            command="Rank tables of numbers and references lower, unless the query asks for them.",
            agents="Rank tables of numbers and references lower.",
        ),
    ] = True
    fold_duplicates: Annotated[
        bool,
        Field(description="Fold near-identical passages into the best of them, as its `duplicates`."),
        Shown(
            command="Show near-identical passages with the best of them.",
            agents="Leave out near-identical passages.",
        ),
    ] = True
    diversity: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            allow_inf_nan=False,
            description=(
                "Maximal marginal relevance. 0: rank by relevance alone. 1: rank by difference from the hits above."
            ),
            examples=[0.3],
        ),
        Shown(
            command="0: rank by relevance alone; 1: by difference from the hits above.",
            metavar="0..1",
            agents="0: rank by relevance alone; 1: by difference from the hits above.",
            parameter="d",
        ),
    ] = 0
    among: frozenset[str] | None = None  # with ALL_COLLECTIONS: the collections that the caller may see; None: all


@dataclass(frozen=True, slots=True)
class WrittenLens:
    """Options of a request as a user writes it. They are resolved to `instruction` and `values` of `SearchRequest`."""

    lens: Annotated[
        str | None,
        Field(description="Name of a saved lens, in place of an instruction."),
        Shown(agents="Name of a saved lens, in place of an instruction; see list_lenses."),
    ] = None
    values: Annotated[
        list[str] | None,
        Field(
            max_length=MAX_VALUES,
            description=(
                "Values that the instruction distinguishes, each as `name` or `name = synonym, "
                "synonym`. They influence the ranking, and hits are counted by value. Omitted: those "
                "of the lens. Empty: none."
            ),
            examples=[["Africa", "Asia", "Europe"]],
        ),
        Shown(
            command="Values that the instruction distinguishes: 'a, b, c' or 'a = synonym, synonym; b; c'. '': none.",
            agents=(
                "Values that the instruction distinguishes, as ['Africa', 'Asia']; hits are ranked "
                "and counted by them. Omitted: those of the lens."
            ),
            parameter="v",
        ),
    ] = None


REQUEST_OPTIONS = options_of(SearchRequest)
_WRITTEN_OPTIONS = options_of(WrittenLens)
SEARCH_OPTIONS: Mapping[str, Option] = {
    each.name: (REQUEST_OPTIONS | _WRITTEN_OPTIONS)[each.name]
    for each in (*fields(SearchRequest), *fields(WrittenLens))
    if each.name in REQUEST_OPTIONS or each.name in _WRITTEN_OPTIONS
}
"""All options of a written request, by name."""


def read_request(
    written: Mapping[str, Any],
    *,
    instruction: str | None,
    values: tuple[LensValue, ...],
    among: frozenset[str] | None = None,
) -> SearchRequest:
    """Creates a request from JSON values by option name; names that are no options are ignored.

    `instruction` and `values`: as resolved from the lens. `among`: see `SearchRequest`.
    """
    given = {name: REQUEST_OPTIONS[name].frozen(value) for name, value in written.items() if name in REQUEST_OPTIONS}
    return SearchRequest(**(given | {"instruction": instruction, "values": values, "among": among}))


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
    page: Annotated[
        int | None, Field(description="Page of the sentence `why`; if that is unknown, of the start of the passage.")
    ]
    context: Annotated[str, Field(description="Title and headings above the passage, as embedded with it.")] = ""
    kind: Annotated[
        ChunkKind, Field(description="table: mostly numbers. references: a bibliography. navigation: a menu.")
    ] = ChunkKind.PROSE
    # (offset in the text, number of the page that begins there), if the chunk is on several pages
    page_starts: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    is_damaged: Annotated[
        bool, Field(description="The stored text differs from the embedded one; `notes` say how to repair it.")
    ] = False


@dataclass(frozen=True, slots=True)
class Highlight:
    """The sentence of a chunk that fits the query best: characters [start, end) of the chunk's text."""

    start: int
    end: int
    score: float  # cosine with the query; if only BM25 found the chunk, the sentence's part of the BM25 score


@dataclass(frozen=True, slots=True)
class LegRank:
    """Rank (from 1) and score (cosine or BM25) of a chunk in one leg of a hybrid search."""

    leg: Annotated[
        Leg,
        Field(description="dense: by the vector under the instruction. plain: by the base model's. sparse: by words."),
    ]
    rank: int
    score: Annotated[float, Field(description="Cosine; BM25 for the leg sparse.")]


@dataclass(frozen=True, slots=True)
class Exclusion:
    phrase: str
    effect: Annotated[
        ExclusionEffect,
        Field(
            description=(
                "rank: passages about it rank lower. value: it is one of the values, and its passages "
                "are left out. offered: none, because “without X” is ambiguous; pass X as `exclude` "
                "to apply it."
            )
        ),
    ]
    is_detected: Annotated[bool, Field(description="True: found in the query. False: from `exclude`.")] = False
    value: Annotated[str | None, Field(description="The value that it names.")] = None
    passages: Annotated[int, Field(description="Number of candidates that were left out or rank lower.")] = 0


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A passage whose text is nearly identical to that of a better hit."""

    document: HitDocument
    chunk: HitChunk


@dataclass(frozen=True, slots=True)
class Hit:
    rank: int  # from 1
    score: Annotated[
        float,
        Field(
            description="Cosine; BM25 in mode sparse; in mode hybrid, and after re-ranking, a weighted mean of scores."
        ),
    ]
    document: HitDocument
    chunk: HitChunk
    why: Highlight | None = None
    legs: Annotated[
        tuple[LegRank, ...], Field(description="Rank and score in each leg of a hybrid search that found it.")
    ] = ()
    value: Annotated[ValueReading | None, Field(description="The passage's value, if the request has values.")] = None
    rerank_score: Annotated[float | None, Field(description="The re-ranker's score, if it scored the passage.")] = None
    moved_from: Annotated[int | None, Field(description="The rank before re-ranking.")] = None
    match: Annotated[
        Match | None,
        Field(
            description=(
                "How well it answers, on one scale for all modes, instructions and collections. weak: no nearer than "
                "passages for off-topic queries. Null without `explain`, with an instruction if the model has no "
                "bounds for it, and in mode sparse if the model is unavailable."
            )
        ),
    ] = None
    excluded: Annotated[
        str | None, Field(description="The excluded phrase that the passage is most about; it ranks lower for it.")
    ] = None
    duplicates: Annotated[
        tuple[NearDuplicate, ...], Field(description="Near-identical passages, which would rank below it.")
    ] = ()


class UnreadRanking(StrEnum):
    """How hits are ranked if the model does not read the language of the query."""

    WORDS = "words"
    TUNED = "tuned"
    MEANING = "meaning"
    MODEL = "model"


_UNREAD_RANKINGS: Mapping[UnreadRanking, str] = {
    UnreadRanking.WORDS: "A hybrid search relies on the words.",
    UnreadRanking.TUNED: "Words and meaning count by the weights that are tuned for this collection.",
    UnreadRanking.MEANING: "The hits are ranked by meaning alone, which the model may misread.",
    UnreadRanking.MODEL: "The hits are ranked again by a model, which may misread the query.",
}


@dataclass(frozen=True, slots=True)
class UnreadLanguage:
    """A query in a language that the model does not read.

    language: of the query. read: the only language that the model reads. ranking: None if there are no hits.
    """

    language: str
    read: str
    ranking: UnreadRanking | None

    def __str__(self) -> str:
        languages = f"This model reads {self.read}, and this looks like {self.language}."
        return languages if self.ranking is None else f"{languages} {_UNREAD_RANKINGS[self.ranking]}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search. REST and `gircse search --json` omit fields with repr=False, also of nested classes."""

    query: str
    instruction: str
    steps: int
    collection: str
    hits: tuple[Hit, ...]
    refinement: tuple[RefinementStep, ...]
    timings_ms: Mapping[str, float]
    mode: SearchMode = DEFAULT_MODE
    values: Annotated[ValueSummary | None, Field(description="Counts by value, if the request has values.")] = None
    notes: Annotated[
        tuple[str, ...], Field(description="Parts of the request that could not be fulfilled, with the reason.")
    ] = ()
    match: Annotated[
        Match | None, Field(description="Match of the best hit. weak: possibly no hit answers the query.")
    ] = None
    exclusions: Annotated[
        tuple[Exclusion, ...], Field(description="What hits should not be about, with the effect.")
    ] = ()
    searched: Annotated[
        str, Field(description="The text that was searched for: the query without what it negates.")
    ] = ""
    read_text: Annotated[
        str, Field(description="The part of it that was encoded, if the instruction left sentences out.")
    ] = ""
    # For `explain` only; no interface shows them.
    vector: Sequence[float] = field(default=(), repr=False)
    document_instruction: str = field(default="", repr=False)
    has_plain_vectors: bool = field(default=False, repr=False)
    is_ranked_by_refinement: bool = field(default=True, repr=False)  # False: by base-model vector and words
    among: frozenset[str] | None = field(default=None, repr=False)  # of the request
    unread: UnreadLanguage | None = field(default=None, repr=False)  # `notes` have the same notice as text
    default_rerank: int = field(default=0, repr=False)  # candidates to re-rank if the request leaves it open
