"""What is asked of a search and what it answers: frozen values that cross folder borders."""

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


Bias = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS, allow_inf_nan=False)]
Phrase = Annotated[str, Field(min_length=1, max_length=MAX_EXCLUSION_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Fields with a `Field` are options of every interface: REST, agents, the command line, saved searches, the search
    page and its address. The interfaces validate them. Code makes requests without validating them again, so this is a
    plain dataclass, which is five times as fast to make as a pydantic model."""

    query: Annotated[
        str,
        Field(examples=["I still haven't received my new card"]),
        Shown(
            command="What you are looking for.",
            agents="What to look for: words, a question, or a whole text.",
            parameter="q",
        ),
    ]
    collection: Annotated[
        str,
        Field(
            description="Where to look. `*`: in all collections of the model in use that the caller may see.",
            examples=["sample"],
        ),
        Shown(
            command="Where to look; '*': in all of them.",
            flags=("--collection", "-c"),
            agents="Where; list_collections names them. *: in all of them.",
            parameter="c",
        ),
    ] = DEFAULT_COLLECTION
    instruction: Annotated[
        str | None,  # None: the model's default; "": no instruction
        Field(
            description="How to look at the query. Left out: the model's own. Empty: none.",
            examples=["Identify the feeling that the message expresses"],
        ),
        Shown(
            command="How to look at the text. Left out: the model's own; '': none.",
            flags=("--instruction", "-i"),
            agents="What counts as similar. Left out: the model's own. Empty: none.",
            parameter="i",
        ),
    ] = None
    steps: Annotated[
        int | None,  # None: the model's default
        Field(ge=0, description="Refinement steps. Left out: the model's own. 0: the base model's vector."),
        Shown(
            command="Refinement steps. Left out: the model's own.",
            agents="Refinement steps. Left out: the model's own.",
            parameter="k",
        ),
    ] = None
    limit: Annotated[
        int,
        Field(ge=1, le=MAX_LIMIT),
        Shown(command=f"How many hits, 1 to {MAX_LIMIT}.", flags=("--limit", "-n"), parameter="n"),
    ] = 10
    filters: Annotated[
        Mapping[str, str],
        Field(description="Document metadata that must be equal."),
        Shown(
            command="Only documents with this metadata. Repeatable.",
            flags=("--filter",),
            metavar="KEY=VALUE",
            agents="Metadata that must be equal.",
        ),
    ] = field(default_factory=dict)
    token_bias: Annotated[
        Mapping[str, Bias],
        Field(
            description="Word → how much more passages are to be about it (below 0: less); from 5 on, either way, in "
            "full."
        ),
    ] = field(default_factory=dict)
    mode: Annotated[
        SearchMode,
        Field(description="By vectors and words (hybrid), by one vector (dense), or by words."),
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
        Field(max_length=MAX_FEEDBACK, description="Ids of chunks that they should not."),
        Shown(command="Less like this chunk. Repeatable.", metavar="CHUNK"),
    ] = field(default_factory=tuple)
    values: tuple[LensValue, ...] = ()  # that the instruction tells apart: `WrittenLens.values`
    value: Annotated[
        str | None,
        Field(description="Only passages of this value, or of `other`."),
        Shown(command="Only passages of this one of the values, or of 'other'."),
    ] = None
    rerank: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_RERANK,
            description="Look at so many of the first candidates again, under the instruction on their side too. 0: "
            "none. Left out: GIRCSE_RERANK_CANDIDATES of a hybrid search with an instruction.",
            examples=[50],
        ),
        Shown(
            command="Look at the first N candidates again, under the instruction. 0: none. Left out: 20.",
            metavar="N",
            agents="Look at so many candidates again, under the instruction. 0: none.",
            parameter="r",
        ),
    ] = None
    per_document: Annotated[
        int | None,
        Field(ge=1, description="At most so many passages of one document. Left out: any number.", examples=[1]),
        Shown(
            command="At most N passages of one document. Left out: any number.",
            metavar="N",
            agents="At most so many passages of a document.",
        ),
    ] = None
    exclude: Annotated[
        tuple[Phrase, ...],
        Field(
            max_length=MAX_EXCLUSIONS,
            description="Phrases that the hits should not be about: passages about one rank lower; where it is one of "
            "the values, passages of that are left out.",
            examples=[["New York"]],
        ),
        Shown(
            command="Passages about PHRASE rank lower. Repeatable.",
            metavar="PHRASE",
            agents="Phrases that passages should not be about.",
        ),
    ] = field(default_factory=tuple)
    detect_negation: Annotated[
        bool,
        Field(
            description="Read “jazz, not about New York” as jazz, with New York among `exclude`, which `exclusions` of "
            "the answer tell. False: the query is taken as it is written."
        ),
        Shown(
            command="Read “jazz, not about New York” as jazz, excluding New York.",
            agents="Read “jazz, not about New York” as jazz, with New York excluded.",
        ),
    ] = True
    prefer_prose: Annotated[
        bool,
        Field(
            description="Tables of numbers and references count less (`chunk.kind`), unless the query asks for such."
        ),
        Shown(
            command="Tables of numbers and references count less, unless the query asks for such.",
            agents="Tables and references count less.",
        ),
    ] = True
    fold_duplicates: Annotated[
        bool,
        Field(description="Near-identical passages go with the best of them, as its `duplicates`."),
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
            description="Maximal marginal relevance: 0 ranks by relevance alone, 1 by being unlike what ranks above.",
            examples=[0.3],
        ),
        Shown(
            command="0: by relevance alone, to 1: unlike what ranks above.",
            metavar="0..1",
            agents="0: by relevance alone; 1: unlike each other.",
            parameter="d",
        ),
    ] = 0
    among: frozenset[str] | None = None  # of ALL_COLLECTIONS only these, which are all that the caller may see


@dataclass(frozen=True, slots=True)
class WrittenLens:
    """Options that only a written request has. They are resolved to the request's instruction and values."""

    lens: Annotated[
        str | None,
        Field(description="A saved lens, in place of an instruction."),
        Shown(agents="A saved instruction in its place; see list_lenses."),
    ] = None
    values: Annotated[
        list[str] | None,
        Field(
            max_length=MAX_VALUES,
            description="Values that the instruction tells apart, each as `name` or as `name = synonym, synonym`: hits "
            "are ranked by being alike among them, too, and counted by value. Left out: those of the lens. Empty: "
            "none.",
            examples=[["Africa", "Asia", "Europe"]],
        ),
        Shown(
            command="Values that the instruction tells apart: 'a, b, c' or 'a = synonym, synonym; b; c'. '': none.",
            agents="Values that the instruction tells apart, as ['Africa', 'Asia']: hits are ranked and counted by "
            "them. Left out: those of the lens.",
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
    """Makes a request of options by name, with JSON's values. `instruction` and `values` are resolved already. Other
    names are ignored."""
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
        int | None, Field(description="Of the sentence `why`; of the passage's beginning where none is known.")
    ]
    context: Annotated[
        str, Field(description="The title and the headings above it, as they were embedded with it.")
    ] = ""
    kind: Annotated[
        ChunkKind, Field(description="table: of numbers. references: a bibliography. navigation: a menu.")
    ] = ChunkKind.PROSE
    # (character of the text, page that begins there), if on several
    page_starts: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    is_damaged: Annotated[
        bool, Field(description="Its stored text is not what was embedded; `notes` say what mends it.")
    ] = False


@dataclass(frozen=True, slots=True)
class Highlight:
    """The sentence by which a chunk was found: characters [start, end) of the chunk's text."""

    start: int
    end: int
    score: float  # its cosine with the query; the BM25 that it adds, where only words found the chunk


@dataclass(frozen=True, slots=True)
class LegRank:
    """Where one leg of a hybrid search found a chunk: rank from 1, and the leg's own score (cosine, or BM25)."""

    leg: Annotated[
        Leg, Field(description="dense: under the instruction. plain: by the base model. sparse: by the words.")
    ]
    rank: int
    score: Annotated[float, Field(description="A cosine, or the BM25 of the leg sparse.")]


@dataclass(frozen=True, slots=True)
class Exclusion:
    phrase: str
    effect: Annotated[
        ExclusionEffect,
        Field(
            description="rank: passages about it rank lower. value: it is a value, of which no passage is shown. "
            "offered: nothing, since “without X” may mean it or not; give it as `exclude` where it does."
        ),
    ]
    is_detected: Annotated[bool, Field(description="Whether the query said so, and not `exclude`.")] = False
    value: Annotated[str | None, Field(description="The value that it is.")] = None
    passages: Annotated[int, Field(description="How many of the candidates were left out, or rank lower.")] = 0


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A passage that says nearly the same as one that ranks above it."""

    document: HitDocument
    chunk: HitChunk


@dataclass(frozen=True, slots=True)
class Hit:
    rank: int  # from 1
    score: Annotated[float, Field(description="Cosine; BM25 in mode sparse; 0 to 1 in mode hybrid.")]
    document: HitDocument
    chunk: HitChunk
    why: Highlight | None = None
    legs: Annotated[
        tuple[LegRank, ...], Field(description="Where each leg of a hybrid search that found it had it.")
    ] = ()
    value: Annotated[
        ValueReading | None, Field(description="What the passage is among the values, where the request has some.")
    ] = None
    rerank_score: Annotated[float | None, Field(description="Of the second look alone, where there was one.")] = None
    moved_from: Annotated[int | None, Field(description="The rank before the second look.")] = None
    match: Annotated[
        Match | None,
        Field(
            description="How well it answers, on one scale for all modes and collections: a weak match is no nearer "
            "than what off-topic queries find. Null without `explain`, under an instruction, and in mode "
            "sparse where the model is away."
        ),
    ] = None
    excluded: Annotated[
        str | None, Field(description="The excluded phrase that it is most about, for which it ranks lower.")
    ] = None
    duplicates: Annotated[
        tuple[NearDuplicate, ...], Field(description="Near-identical passages, which would rank below it.")
    ] = ()


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
    """REST and `gircse search --json` show all fields except those without repr, here and in nested dataclasses."""

    query: str
    instruction: str
    steps: int
    collection: str
    hits: tuple[Hit, ...]
    refinement: tuple[RefinementStep, ...]
    timings_ms: Mapping[str, float]
    mode: SearchMode = DEFAULT_MODE
    values: Annotated[ValueSummary | None, Field(description="Counts by value, where the request has some.")] = None
    notes: Annotated[tuple[str, ...], Field(description="What was asked for and could not be done, and why.")] = ()
    match: Annotated[
        Match | None, Field(description="Of the hit that answers best; where it is weak, nothing here may answer.")
    ] = None
    exclusions: Annotated[
        tuple[Exclusion, ...], Field(description="What the hits should not be about, and what became of it.")
    ] = ()
    searched: Annotated[str, Field(description="What was searched for: the query, without what it negates.")] = ""
    read_text: Annotated[str, Field(description="What of that was read, where the instruction left sentences out.")] = (
        ""
    )
    # For `explain` only; no interface shows them.
    vector: Sequence[float] = field(default=(), repr=False)
    document_instruction: str = field(default="", repr=False)
    has_plain_vectors: bool = field(default=False, repr=False)
    is_ranked_by_refinement: bool = field(default=True, repr=False)  # or by the base model's vector, and words
    among: frozenset[str] | None = field(default=None, repr=False)  # as of the request
    unread: UnreadLanguage | None = field(default=None, repr=False)  # which `notes` tell, too
