"""The contents of the about page: model and model card, versions, kinds of catalog and index."""

from __future__ import annotations

import logging
import platform
from dataclasses import replace
from importlib.metadata import version
from urllib.parse import urlsplit

import embedder
from app.services import Services
from app.settings import Settings
from app.wiring.remote import RemoteEmbedder
from ui.contract import AboutInfo
from ui.language import later

PACKAGES = ("gircse-search", "torch", "transformers", "qdrant-client", "gradio")

# By model: means over all corpora from docs/evaluation/faithfulness.md (`research.benchmarks.faithfulness`).
FAITHFULNESS = {
    "gircse-small": later(
        "An explanation is right if the score falls without the sentence or word that it names. Measured with this "
        "model on four collections:\n\n"
        "- **By meaning**: without the marked sentence, the score of a passage falls by 0.115; without another "
        "sentence of the same length, it does not fall. In 88 % of 89 passages the marked sentence mattered more.\n"
        "- **By words**: without the marked sentence, the score falls by 38 %; without another one, by 4 %.\n"
        "- **Words added by the refinement** that occur in a passage: without the most important one, its score falls "
        "by 0.018. That explains little, so these words are not shown as a reason. They show how the query was read."
    )
}

_log = logging.getLogger(__name__)


def describe_installation(services: Services) -> AboutInfo:
    settings, model = services.settings, services.embedder.info
    if not isinstance(services.embedder, RemoteEmbedder):
        model = replace(model, card=read_card(settings.model))
    return AboutInfo(
        model_name=model.name,
        version=version("gircse-search"),
        model=model,
        versions={"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        catalog_kind=catalog_kind(settings),
        index_kind=index_kind(settings),
        faithfulness=FAITHFULNESS.get(model.name, ""),
    )


def read_card(model: str) -> str | None:
    """The model card, or None if it is missing or unreadable: a bad card must not keep the page from working."""
    try:
        return embedder.read_model_card(model)
    except (embedder.EmbedderError, OSError):
        _log.warning("The card of the model %r could not be read", model, exc_info=True)
        return None


def catalog_kind(settings: Settings) -> str:
    """The kind of the catalog only; its address is for the operator (`gircse doctor`)."""
    is_server = urlsplit(settings.catalog_url).scheme.startswith("postgresql")
    return later("PostgreSQL server") if is_server else later("SQLite file")


def index_kind(settings: Settings) -> str:
    return later("Qdrant server") if settings.qdrant_url else later("Qdrant Edge, the embedded engine")
