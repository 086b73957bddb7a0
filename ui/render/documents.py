"""HTML of a collection's documents: counts by state and the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup

from app.types.documents import READ_PROGRESS, Collection, Document, DocumentState, Job, JobKind, JobState
from app.types.upkeep import Fetch, FetchState
from app.types.uris import shown_address
from ui.contract import SEARCH
from ui.core_messages import translate_message, translate_note
from ui.language import _, html, later, number
from ui.render.text import clean, join, name_of, render_error, shorten, shown_size

_IN_WORDS = {
    DocumentState.READY: later("ready"),
    DocumentState.QUEUED: later("waiting or processing"),
    DocumentState.FAILED: later("failed"),
    DocumentState.DELETING: later("being deleted"),
}


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """One page of the list. `first` is its zero-based offset in the `total` matching documents."""

    collection: str
    documents: Sequence[Document]
    jobs: Mapping[str, Job]  # latest job by document id
    first: int
    total: int
    page_size: int
    is_filtered: bool
    is_paused: bool


def render_no_collection() -> str:
    return html(
        '<div data-collection="library" data-is-new><div class="welcome"><h2>[[Nothing here yet]]</h2><p>[[Drop '
        "files above to create the collection “library”, or enter another name in the field. Documents become "
        "searchable once they are indexed.]]</p></div></div>"
    )


def render_new_collection(name: str) -> str:
    """Replaces the list for a collection that does not exist. Without a name, uploads are disabled."""
    return html('<div{}><p class="kept">[[No documents to show.]]</p></div>').format(
        Markup(' data-collection="{}" data-is-new').format(clean(name)) if name else ""
    )


def render_offer(typed: str, name: str) -> str:
    """A button to create the typed collection. `name` is the valid form of its name; empty if there is none."""
    if not name:
        return render_error(
            _("“{typed}” is not a valid collection name. Use letters from a to z or digits.").format(typed=typed)
        )
    return html(
        '<p class="offer" role="status"><span class="sr-only">[[There is no collection “{}”.]]</span> <button '
        'type="button" class="plain-button" data-event="create" data-name="{}">[[Create collection {}]]</button></p>'
    ).format(shorten(typed, 100), clean(name), clean(name))


def render_undo(message: str, documents: Sequence[str], *, action: str, collection: str, to: str = "") -> str:
    """A message with an undo button, which runs `action` on the documents in `collection`."""
    return html(
        '<div class="notice" role="status"><p dir="auto">{}</p><p class="settings-buttons"><button '
        'type="button" class="plain-button" data-event="act" data-action="{}" data-documents="{}" '
        'data-collection="{}" data-to="{}">[[Undo]]</button></p></div>'
    ).format(shorten(message, 1000), action, clean(" ".join(documents)), clean(collection), clean(to))


def render_overview(collection: Collection, counts: Mapping[DocumentState, int], fetches: Sequence[Fetch]) -> str:
    total = sum(counts.values())
    shown = [state for state in _IN_WORDS if counts[state]]
    legend = join(
        Markup('<li class="is-{}"><b>{}</b> {}</li>').format(state.value, number(counts[state]), _(_IN_WORDS[state]))
        for state in shown
    )
    overview = html(
        '<section class="overview" aria-label="[[State of the collection]]">{bar}<div '
        'class="overview-line"><ul>{legend}</ul>{search}{retry}</div>{paused}</section>'
    ).format(
        bar=_render_bar([(state, counts[state]) for state in shown]),
        legend=legend,
        search=_render_search_link(collection.name) if counts[DocumentState.READY] else "",
        retry=_button("retry-all", _("Retry all failed")) if counts[DocumentState.FAILED] else "",
        paused=html('<p class="kept">[[Indexing is paused. Resume it under Collection settings.]]</p>')
        if collection.is_paused and counts[DocumentState.QUEUED]
        else "",
    )
    return (overview if total else Markup("")) + _render_fetches(fetches)


def _render_search_link(collection: str) -> Markup:
    return html('<a class="plain-button" href="{}">[[Search this collection]]</a>').format(
        f"{SEARCH.path}?{urlencode({'collection': collection})}"
    )


def _render_bar(counts: Sequence[tuple[DocumentState, int]]) -> Markup:
    """A stacked bar; shares are percentages of its width."""
    total = sum(count for _, count in counts)
    rects, x = [], 0.0
    for state, count in counts:
        width = 100 * count / total
        rects.append(
            Markup('<rect class="is-{}" x="{}" y="0" width="{}" height="8"/>').format(
                state.value, f"{x:.3f}", f"{width:.3f}"
            )
        )
        x += width
    return Markup(
        '<svg class="overview-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(join(rects))


def render_documents(page: DocumentPage) -> str:
    """The data-collection attribute is the target of uploads."""
    if page.documents:
        rows = join(
            _render_document(document, page.jobs.get(document.id), is_paused=page.is_paused)
            for document in page.documents
        )
        body = html(
            '<table class="documents"><caption class="sr-only">[[Documents, newest first]]</caption><thead><tr><th '
            'scope="col" class="document-pick"><input type="checkbox" data-every data-event="pick" '
            'aria-label="[[Select all on this page]]"></th><th scope="col">[[Document]]</th><th '
            'scope="col">[[State]]</th><th scope="col" class="number">[[Passages]]</th><th scope="col"><span '
            'class="sr-only">[[Actions]]</span></th></tr></thead><tbody>{}</tbody></table>{}'
        ).format(rows, _render_paging(page))
    elif page.is_filtered:
        body = html('<p class="kept">[[No document of this collection matches. Clear the filter to see all.]]</p>')
    else:
        body = html(
            '<div class="welcome"><h2>[[No documents yet]]</h2><p>[[Drop files or folders above, or add web pages. '
            "Documents become searchable once they are indexed. You can leave this page meanwhile.]]</p></div>"
        )
    return Markup('<div data-collection="{}">{}</div>').format(clean(page.collection), body)


def _render_document(document: Document, job: Job | None, *, is_paused: bool) -> Markup:
    title = shorten(name_of(document), 160)
    error = (
        Markup('<span class="document-error" dir="auto">{}</span>').format(
            shorten(translate_message(document.error), 500)
        )
        if document.error
        else ""
    )
    return html(
        '<tr{gone}><td class="document-pick">{pick}</td><td class="document-name"><button '
        'type="button" class="open" data-walk data-event="open" data-document="{id}" '
        'dir="auto">{title}</button><span class="document-uri">{uri} · '
        '{size}</span>{error}{left_out}</td><td>{state}</td><td class="number"><span '
        'class="only-phone">[[Passages:]] </span>{chunks}</td><td '
        'class="document-buttons">{buttons}</td></tr>'
    ).format(
        gone=Markup(' class="is-deleted"') if document.state is DocumentState.DELETING else "",
        pick=_render_pick(document, title),
        id=clean(document.id),
        title=title,
        uri=shorten(shown_address(document.uri), 160),
        size=shown_size(document.byte_count),
        error=error,
        left_out=_render_left_out(document),
        state=_render_state(document, job, is_paused=is_paused),
        chunks=number(document.chunk_count),
        buttons=_render_buttons(document, job, title),
    )


def _render_left_out(document: Document) -> Markup:
    """Notes on content that is missing from the text of an indexed document."""
    said = " ".join(map(translate_note, document.left_out))
    return (
        Markup('<span class="document-left-out" dir="auto">{}</span>').format(shorten(said, 500))
        if said
        else Markup("")
    )


def _render_pick(document: Document, title: str) -> Markup:
    if document.state is DocumentState.DELETING:
        return Markup("")
    return html('<input type="checkbox" data-event="pick" data-document="{}" aria-label="[[Select {}]]">').format(
        clean(document.id), title
    )


def _render_state(document: Document, job: Job | None, *, is_paused: bool) -> Markup:
    if document.state is DocumentState.QUEUED and job is not None and job.state is JobState.RUNNING:
        percent = round(min(max(job.progress, 0.0), 1.0) * 100)
        stage = _("reading") if job.progress < READ_PROGRESS else _("indexing {percent} %").format(percent=percent)
        return html(
            '<span class="state is-queued">{}</span><progress max="100" value="{}" '
            'aria-label="[[Progress]]">{} %</progress>'
        ).format(stage, percent, percent)
    return Markup('<span class="state is-{}">{}</span>').format(
        document.state.value, _state_name(document, job, is_paused)
    )


def _state_name(document: Document, job: Job | None, is_paused: bool) -> str:
    if document.state is DocumentState.QUEUED:
        if is_paused:
            return _("paused")
        is_retried = job is not None and job.state is JobState.FAILED
        return _("waiting for retry") if is_retried else _("waiting")
    if document.state is DocumentState.FAILED and job is not None and job.state is JobState.CANCELLED:
        return _("cancelled")
    return _(_IN_WORDS[document.state])


def _render_buttons(document: Document, job: Job | None, title: str) -> Markup:
    buttons = []
    is_ingestion = job is not None and job.kind is JobKind.INGEST
    if document.state is DocumentState.FAILED and job is not None and job.can_succeed_again:
        buttons.append(_button("retry", _("Retry"), spoken=_("Retry {name}").format(name=title), document=document.id))
    if document.state is DocumentState.QUEUED and is_ingestion:
        buttons.append(
            _button("cancel", _("Cancel"), spoken=_("Cancel {name}").format(name=title), document=document.id)
        )
    if document.state is DocumentState.DELETING:
        buttons.append(
            _button(
                "restore", _("Undo"), spoken=_("Undo the deletion of {name}").format(name=title), documents=document.id
            )
        )
    else:
        buttons.append(
            _button("delete", _("Delete"), spoken=_("Delete {name}").format(name=title), documents=document.id)
        )
    return join(buttons)


def _render_paging(page: DocumentPage) -> Markup:
    if page.total <= page.page_size:
        return Markup("")
    last = page.first + len(page.documents)
    newer = _page_button(_("Newer"), max(0, page.first - page.page_size)) if page.first else Markup("")
    older = _page_button(_("Older"), last) if last < page.total else Markup("")
    return html('<p class="paging">{}<span>[[{}–{} of {}]]</span>{}</p>').format(
        newer, number(page.first + 1), number(last), number(page.total), older
    )


def _page_button(label: str, offset: int) -> Markup:
    return Markup('<button type="button" class="plain-button" data-event="turn" data-offset="{}">{}</button>').format(
        offset, label
    )


def _render_fetches(fetches: Sequence[Fetch]) -> Markup:
    if not fetches:
        return Markup("")
    rows = join(_render_fetch(fetch) for fetch in fetches)
    return html('<section aria-label="[[Web pages]]"><ul class="fetches">{}</ul></section>').format(rows)


def _render_fetch(fetch: Fetch) -> Markup:
    has_failed = fetch.state is FetchState.FAILED
    url = shorten(shown_address(fetch.url), 200)
    buttons = (
        _button("retry-url", _("Retry"), spoken=_("Retry {name}").format(name=url), url=fetch.url)
        + _button("forget-url", _("Dismiss"), spoken=_("Dismiss {name}").format(name=url), url=fetch.url)
        if has_failed
        else ""
    )
    return Markup(
        '<li><div><span class="document-uri">{url}</span>{error}</div><span class="state is-{kind}">{state}</span>'
        '<span class="document-buttons">{buttons}</span></li>'
    ).format(
        url=url,
        error=Markup('<span class="document-error" dir="auto">{}</span>').format(
            shorten(translate_message(fetch.error or ""), 500)
        )
        if has_failed
        else "",
        kind="failed" if has_failed else "queued",
        state=_("failed") if has_failed else _("fetching") if fetch.state is FetchState.FETCHING else _("waiting"),
        buttons=buttons,
    )


def _button(
    action: str, label: str, *, spoken: str = "", document: str = "", documents: str = "", url: str = ""
) -> Markup:
    """`spoken` is the name for screen readers. It tells buttons with equal labels apart."""
    given = (
        (Markup(' data-document="{}"'), clean(document)),
        (Markup(' data-documents="{}"'), clean(documents)),
        (Markup(' data-url="{}"'), clean(url)),
        (Markup(' aria-label="{}"'), spoken),
    )
    return Markup(
        '<button type="button" class="plain-button{}" data-event="act" data-action="{}"{}>{}</button>'
    ).format(
        Markup(" is-danger") if action == "delete" else "",
        action,
        join(attribute.format(value) for attribute, value in given if value),
        label,
    )
