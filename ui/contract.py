"""What the pages need from the application: frozen values and protocols. Knows no Gradio, no implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.ports.answers import Answers
from app.ports.catalog import Catalog
from app.ports.evaluation import Evaluations, JudgedQueries, Tuning
from app.ports.searches import OwnSearches
from app.ports.services import Collections, Documents, Fetching, LensIndexes, Proposals, Reindexing, Search, Texts
from app.ports.sources import RecurringSources
from app.ports.standing import StandingSearches
from embedder.model_info import ModelInfo
from ui.language import later


@dataclass(frozen=True, slots=True)
class PageLink:
    name: str
    path: str


PURPOSE = later("gircse-search finds passages by meaning, and you say what “similar” should mean.")
SEARCH = PageLink(later("Search"), "/")
COMPARE = PageLink(later("Compare"), "/compare")
DOCUMENTS = PageLink(later("Documents"), "/documents")
SAVED = PageLink(later("Saved"), "/saved")
EVALUATE = PageLink(later("Evaluate"), "/evaluate")
ABOUT = PageLink(later("About"), "/about")


@dataclass(frozen=True, slots=True)
class Example:
    """A search to try with one click, in the collection that it was written for."""

    query: str
    instruction: str
    collection: str


@dataclass(frozen=True, slots=True)
class ExampleHit:
    """`value` is which value of the lens it has; empty for a lens without values."""

    title: str
    value: str


@dataclass(frozen=True, slots=True)
class ShownExample:
    """What a search finds through a lens, kept for those who have no documents yet."""

    query: str
    lens: str
    hits: Sequence[ExampleHit]


@dataclass(frozen=True, slots=True)
class AboutInfo:
    """What runs here, for every user of the pages: no address, path or key.

    `faithfulness` is what was measured of the highlights, in Markdown; empty where nothing was.
    """

    model_name: str
    version: str
    model: ModelInfo | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    catalog_kind: str = ""
    index_kind: str = ""
    faithfulness: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """All that the pages work with. `first_example` is one query through two lenses, or nothing. Without `judged`,
    `evaluations` and `tuning` nothing can be measured.

    `checks` ask a part each whether it can work now, as those of the same name in `Services`.
    """

    search: Search
    answers: Answers
    proposals: Proposals
    catalog: Catalog
    texts: Texts
    collections: Collections
    documents: Documents
    own_searches: OwnSearches
    standing: StandingSearches
    sources: RecurringSources
    fetching: Fetching
    reindexing: Reindexing
    lens_indexes: LensIndexes
    default_steps: int
    min_steps: int
    max_steps: int
    about: AboutInfo
    examples: Sequence[Example] = ()
    first_example: Sequence[ShownExample] = ()
    judged: JudgedQueries | None = None
    evaluations: Evaluations | None = None
    tuning: Tuning | None = None
    checks: Mapping[str, Callable[[], bool]] = field(default_factory=dict)
    has_logins: bool = False
