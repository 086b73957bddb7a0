"""A small installation for the tests of the pages: real model, engine, catalog and worker, and a handful of texts."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gircse_program import Gircse, Server
from reportlab.pdfgen.canvas import Canvas

LETTERS, RECIPES, EMPTY = "letters", "recipes", "nothing-yet"

TEXTS: Mapping[str, Mapping[str, tuple[str, Mapping[str, str | int | bool]]]] = {
    LETTERS: {
        "Late again": (
            "The ferry was due at seven. I stood on the quay for an hour, furious. Nobody told us anything.",
            {"year": 2024, "from": "a reader", "answered": False},
        ),
        "A day out": (
            "We took the ferry to the island. The boat was full of smiling people. It was a joyful day for all of us.",
            {"year": 2025, "from": "a reader", "answered": True},
        ),
        "Second repair": (
            "The lid of the kettle broke again. I am angry and fed up. I would like to send it back.",
            {"year": 2025, "from": "a customer", "answered": False},
        ),
        "A good present": (
            "The kettle boils in two minutes. My mother is delighted with it. Thank you for the quick delivery.",
            {"year": 2025, "from": "a customer", "answered": True},
        ),
        "Lettre de Marseille": (
            "Le café de la gare était fermé. Nous avons attendu le train dehors, sous la pluie.",
            {"year": 2023, "from": "a reader", "answered": False},
        ),
    },
    RECIPES: {
        "Lentil soup": ("Wash the lentils. Cook them with an onion and a carrot for half an hour. Salt it last.", {}),
        "Flat bread": ("Mix flour, water and salt. Let the dough rest. Bake each side in a hot pan.", {}),
    },
}
PDF_TITLE = "Rules of the harbour"
PDF_PAGES = (
    "The harbour is open from six in the morning until ten at night.",
    "Boats that arrive late pay twenty crowns for each hour.",
    "Dogs must be kept on a lead on the quay.",
)


@dataclass(frozen=True, slots=True)
class PageApplication:
    """A running service; `server` asks its API."""

    server: Server
    log: Path

    @property
    def url(self) -> str:
        return self.server.url

    def add_text(
        self, collection: str, title: str, text: str, metadata: Mapping[str, object] | None = None, *, uri: str = ""
    ) -> str:
        """The id of the document, which the worker still has to read."""
        body = {"collection": collection, "title": title, "text": text, "metadata": dict(metadata or {})}
        answer = self.server.ask("/api/v1/documents", {**body, **({"uri": uri} if uri else {})})
        assert answer.status == 202, answer
        return str(answer.body["document"]["id"])

    def add_file(self, collection: str, name: str, content: bytes, media_type: str, *, title: str = "") -> str:
        fields = {"collection": collection, "title": title}
        answer = self.server.post_form("/api/v1/documents", fields, file=(name, content, media_type))
        assert answer.status == 202, answer
        return str(answer.body["document"]["id"])

    def wait_until_read(self, *collections: str) -> None:
        for name in collections:
            self.server.wait_until_idle(name)

    def incidents(self) -> list[str]:
        """What the service has logged of failures that nobody foresaw."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if "Traceback" in line or "incident" in line]


@contextmanager
def serving_pages(gircse: Gircse, log: Path) -> Iterator[PageApplication]:
    """`gircse up` on an empty home."""
    with gircse.serving(log=log) as server:
        yield PageApplication(server, log)


def fill(application: PageApplication) -> None:
    """Takes in the texts above, one PDF of three pages, and makes an empty collection."""
    for name, texts in TEXTS.items():
        application.server.ask("/api/v1/collections", {"name": name})
        for title, (text, metadata) in texts.items():
            application.add_text(name, title, text, metadata, uri=f"{name}/{uuid.uuid5(uuid.NAMESPACE_URL, title)}.txt")
    application.add_file(LETTERS, "harbour.pdf", pdf(PDF_PAGES), "application/pdf", title=PDF_TITLE)
    application.server.ask("/api/v1/collections", {"name": EMPTY})
    application.wait_until_read(*TEXTS)


def pdf(pages: tuple[str, ...]) -> bytes:
    written = io.BytesIO()
    canvas = Canvas(written, invariant=True)
    for page in pages:
        canvas.drawString(72, 720, page)
        canvas.showPage()
    canvas.save()
    return written.getvalue()
