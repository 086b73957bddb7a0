"""The parts of a running application, built in `app/wiring` and given to every interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.answers.service import AnswerService
from app.collections.credentials_folder import CredentialsFolder
from app.collections.lens_indexes import QueuedLensIndexes
from app.collections.value_tables import CsvValueTables
from app.documents.library import Library
from app.maintenance.integrity import Integrity
from app.ports.evaluation import Evaluations
from app.ports.parts import BlobStore, SharedEmbedder, VectorIndex
from app.ports.sources import SourceCredentials
from app.ports.texts import TokenCounter
from app.runtime.metrics import ProcessMetrics
from app.search.service import SearchService
from app.search.value_proposals import ValueProposer
from app.settings import Settings
from app.types.alerts import AlertTarget

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog


@dataclass(frozen=True, slots=True)
class Services:
    """All services of a running application, without authorization. `checks` for /readyz: maps each component's name to
    a function that returns whether it works now."""

    settings: Settings
    catalog: SqlCatalog
    index: VectorIndex
    blobs: BlobStore
    embedder: SharedEmbedder
    token_counter: TokenCounter
    search: SearchService
    answers: AnswerService
    proposals: ValueProposer
    library: Library
    lens_indexes: QueuedLensIndexes
    value_tables: CsvValueTables
    evaluations: Evaluations
    integrity: Integrity
    checks: Mapping[str, Callable[[], bool]]
    metrics: ProcessMetrics = field(default_factory=ProcessMetrics)
    alerts: Mapping[str, AlertTarget] = field(default_factory=dict)
    source_credentials: SourceCredentials = field(default_factory=CredentialsFolder)
