"""API and page in one application."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI

from app.api.main import create_app
from app.judged import Judged
from app.lenses import STARTERS
from app.services import Services
from app.types import Document, JobPriority, Source
from ingest.readers import media_type_of
from ui.app import AboutInfo, Example, PageParts, build_pages, mount_pages

_LENSES = {lens.name: lens.query_instruction for lens in STARTERS}
EXAMPLES = (
    Example("Fishing feeds most families of Vanuatu, and tourists bring the rest.", _LENSES["Same place"]),
    Example("Fishing feeds most families of Vanuatu, and tourists bring the rest.", _LENSES["Same topic"]),
    Example("How do prices react when demand falls?", _LENSES["Answers the question"]),
)


def create_web(services: Services) -> FastAPI:
    """The API with the page mounted last, since routes after it would answer 404."""

    def add_files(collection: str, files: list[Path]) -> list[Document]:
        sources = [Source(file.name, f"upload://{file.name}", media_type_of(file.name), path=file) for file in files]
        outcomes = services.library.add_documents(collection, sources, priority=JobPriority.INTERACTIVE)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [outcome[0] for outcome in outcomes if not isinstance(outcome, Exception)]

    parts = PageParts(
        search=services.search,
        catalog=services.catalog,
        texts=services.library,
        default_steps=services.embedder.default_query_steps,
        max_steps=services.embedder.max_steps,
        about=AboutInfo(model_name=services.embedder.model_name, version=version("gircse-search")),
        examples=EXAMPLES,
        add_files=add_files,
        judged=Judged(services.catalog),
        evaluations=services.evaluations,
    )
    return mount_pages(create_app(services), build_pages(parts))
