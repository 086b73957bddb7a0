"""What the pages need from the application: frozen values and protocols. Imports no Gradio and no implementation."""

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
    """A search to try with one click, written for one collection."""

    query: str
    instruction: str
    collection: str


@dataclass(frozen=True, slots=True)
class ExampleHit:
    """A hit of a stored example. `value` is its lens value; empty for a lens without values."""

    title: str
    value: str


@dataclass(frozen=True, slots=True)
class ShownExample:
    """Stored results of an example search, shown to people without documents."""

    query: str
    lens: str
    hits: Sequence[ExampleHit]


@dataclass(frozen=True, slots=True)
class AboutInfo:
    """About this installation. Every user sees it, so it has no addresses, paths or keys.

    `faithfulness` is the measured accuracy of highlights as Markdown; empty if not measured.
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
    """Services and values for the pages. `first_example` is one query through two lenses, or empty. The evaluate page
    needs `judged`, `evaluations` and `tuning`.

    `checks` are health checks by part, as in `Services`.
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
