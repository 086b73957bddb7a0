"""Builds all services of the application from the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial

from app.answers.service import AnswerService
from app.collections.credentials_folder import CredentialsFolder
from app.collections.lens_indexes import QueuedLensIndexes
from app.collections.value_tables import CsvValueTables
from app.documents.blobs import FolderBlobStore
from app.documents.library import Library
from app.edge import EdgeProcess
from app.evaluation.background import evaluations_over
from app.maintenance.integrity import Integrity
from app.runtime.metrics import ProcessMetrics
from app.runtime.readiness import WhileBusy
from app.search.service import SearchService
from app.search.value_proposals import ValueProposer
from app.services import Services
from app.settings import Settings
from app.wiring.alerts import alert_targets
from app.wiring.answer_reader import ShippedReader
from app.wiring.catalog import check_catalog, open_catalog
from app.wiring.embedders import embedder_for
from app.wiring.embedding import LocalEmbedder
from app.wiring.index import open_index
from app.wiring.language_model import language_model_for
from app.wiring.remote import RemoteEmbedder
from app.wiring.rerankers import reranker_for
from app.wiring.tracing import open_spans
from ingest.readers import detect


@contextmanager
def open_services(
    settings: Settings, *, embedder: LocalEmbedder | RemoteEmbedder | None = None, edge: EdgeProcess | None = None
) -> Iterator[Services]:
    """All services. `embedder` and `edge` (the home's embedded engine) may still be starting when passed in."""
    embedder = embedder or embedder_for(settings)
    spans = open_spans("gircse")
    metrics = ProcessMetrics(spans=spans)
    blobs = FolderBlobStore(settings.home / "files")
    reranker = reranker_for(settings, embedder, observer=metrics)
    language_model = language_model_for(settings)
    with (
        closing(reranker),
        closing(language_model) if language_model else nullcontext(),
        closing(spans),
        closing(embedder),
        open_catalog(settings) as catalog,
        open_index(settings, edge=edge) as index,
        closing(evaluations_over(catalog=catalog, index=index, embedder=embedder)) as evaluations,
    ):
        check = partial(check_catalog, settings, is_thorough=True)
        integrity = Integrity(catalog, index, blobs, embedder=embedder, check_catalog=check)
        search = SearchService(
            catalog,
            index,
            embedder,
            reranker=reranker,
            rerank_candidates=settings.rerank_candidates,
            soundness=integrity,
            observer=metrics,
        )
        yield Services(
            settings=settings,
            catalog=catalog,
            index=index,
            blobs=blobs,
            embedder=embedder,
            token_counter=embedder,
            search=search,
            answers=AnswerService(search, embedder, language_model=language_model, reader=ShippedReader()),
            proposals=ValueProposer(catalog, index, embedder),
            library=Library(catalog=catalog, index=index, blobs=blobs, embedder=embedder, detect_format=detect),
            lens_indexes=QueuedLensIndexes(catalog),
            value_tables=CsvValueTables(catalog, index),
            evaluations=evaluations,
            integrity=integrity,
            checks={
                "catalog": catalog.is_alive,
                "index": index.is_alive,
                "integrity": integrity.is_sound,
                # A local model may be busy with a batch of documents; that is not a failure.
                "embedder": embedder.is_ready if settings.embedder_url else WhileBusy(embedder.is_ready),
            },
            metrics=metrics,
            alerts=alert_targets(settings),
            source_credentials=CredentialsFolder(settings.credentials_folder),
        )
