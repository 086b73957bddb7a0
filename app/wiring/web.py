"""API and page in one application."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI

from app.api.main import create_app
from app.services import Services
from app.types import Document, JobPriority, Source
from ingest.readers import media_type_of
from ui.app import AboutInfo, Example, Preset, build_page, mount_page

# Worded as the default model was trained to hear them.
PRESETS = (
    Preset("Answers", "Given a question, retrieve passages that answer the question."),
    Preset("Same topic", "Identify the topic of the text, such as economy, government or geography."),
    Preset("Same place", "Identify the region of the world the text is about."),
    Preset("Same intent", "Represent the intention of this text."),
    Preset("Same feeling", "Represent the emotion of this text."),
    Preset("Same kind of text", "Identify what kind of text this is, such as a definition, a question or a summary."),
    Preset("No instruction", ""),
)
EXAMPLES = (
    Example("Fishing feeds most families of Vanuatu, and tourists bring the rest.", PRESETS[2].instruction),
    Example("Fishing feeds most families of Vanuatu, and tourists bring the rest.", PRESETS[1].instruction),
    Example("How do prices react when demand falls?", PRESETS[0].instruction),
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

    page = build_page(
        search=services.search,
        catalog=services.catalog,
        presets=PRESETS,
        default_steps=services.embedder.default_query_steps,
        max_steps=services.embedder.max_steps,
        about=AboutInfo(model_name=services.embedder.model_name, version=version("gircse-search")),
        examples=EXAMPLES,
        add_files=add_files,
    )
    return mount_page(create_app(services), page)
