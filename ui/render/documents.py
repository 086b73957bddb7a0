"""The documents of a collection, and how far their ingestion is."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.types import Document, DocumentState, Job, JobState
from ui.render.text import clean, join, shorten


def render_documents(documents: Sequence[Document], jobs: Sequence[Job], *, total: int) -> str:
    """`jobs` may hold those of other documents; the newest comes first."""
    if not documents:
        return Markup('<p class="kept">No documents yet. Add some above: they become searchable as they are read.</p>')
    newest: dict[str, Job] = {}
    for job in jobs:
        newest.setdefault(job.document_id, job)
    rows = join(_render_document(document, newest.get(document.id)) for document in documents)
    more = f"Showing {len(documents)} of {total}." if total > len(documents) else ""
    return Markup(
        '<table class="documents"><thead><tr><th scope="col">Document</th><th scope="col">State</th>'
        '<th scope="col">Passages</th><th scope="col"><span class="sr-only">Delete</span></th></tr></thead>'
        '<tbody>{}</tbody></table><p class="kept">{}</p>'
    ).format(rows, more)


def _render_document(document: Document, job: Job | None) -> Markup:
    title = shorten(document.title or document.uri, 120)
    error = (
        Markup('<span class="document-error" dir="auto">{}</span>').format(shorten(document.error, 400))
        if document.error
        else ""
    )
    return Markup(
        '<tr><td><b dir="auto">{title}</b><span class="document-uri">{uri}</span>{error}</td>'
        '<td>{state}</td><td class="number">{chunks}</td><td><button type="button" class="delete" '
        'data-document="{id}" aria-label="Delete {title}">Delete</button></td></tr>'
    ).format(
        title=title,
        uri=shorten(document.uri, 120),
        error=error,
        state=_render_state(document, job),
        chunks=document.chunk_count,
        id=clean(document.id),
    )


def _render_state(document: Document, job: Job | None) -> Markup:
    if document.state is DocumentState.QUEUED and job is not None and job.state is JobState.RUNNING:
        percent = round(min(max(job.progress, 0.0), 1.0) * 100)
        return Markup('<span class="state is-queued">reading {percent} %</span>').format(percent=percent) + Markup(
            '<progress max="100" value="{}" aria-label="Progress">{} %</progress>'
        ).format(percent, percent)
    name = {DocumentState.QUEUED: "waiting", DocumentState.DELETING: "being deleted"}.get(
        document.state, document.state.value
    )
    return Markup('<span class="state is-{}">{}</span>').format(document.state.value, name)
