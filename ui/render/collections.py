"""What a collection is made with, and how far it is indexed anew."""

from __future__ import annotations

from markupsafe import Markup

from app.types.documents import Collection
from app.types.upkeep import ReindexState, ReindexStatus
from ui.core_messages import translate_message
from ui.language import _, html, number
from ui.render.text import clean, shorten


def render_settings(collection: Collection, reindex: ReindexStatus) -> str:
    pause = ("resume", _("Go on reading")) if collection.is_paused else ("pause", _("Pause reading"))
    return html(
        '<dl class="facts"><div><dt>[[Documents read as]]</dt><dd '
        'dir="auto">{instruction}</dd></div><div><dt>[[Steps]]</dt><dd>{steps}</dd></div><div><dt>[[Passages]]</dt><dd>'
        "{tokens} "
        "[[tokens, {overlap} shared]]</dd></div><div><dt>[[Model]]</dt><dd><code "
        'title="{fingerprint}">{short}</code></dd></div></dl><p '
        'class="settings-buttons">{pause}{back}</p>{reindex}'
    ).format(
        instruction=shorten(collection.document_instruction, 300) or _("as they are, without an instruction"),
        steps=collection.document_steps,
        tokens=collection.chunk_tokens,
        overlap=collection.chunk_overlap,
        fingerprint=clean(collection.fingerprint),
        short=clean(collection.fingerprint)[:12],
        pause=_button(*pause),
        back=_button(
            "roll-back",
            _("Back to the former index"),
            confirm=_("Search this collection in its former index again?"),
        )
        if reindex.can_roll_back
        else "",
        reindex=_render_reindex(reindex),
    )


def _render_reindex(status: ReindexStatus) -> Markup:
    if status.state is ReindexState.NONE:
        return Markup("")
    count = _("{done} of {total} documents").format(done=number(status.done), total=number(status.total))
    if status.state is ReindexState.RUNNING:
        return html(
            '<div class="notice" role="status"><p>[[Indexing anew: {count}. You can leave this '
            'page.]]</p><progress max="{total}" value="{done}" aria-label="[[Indexing '
            'anew]]">{count}</progress></div>'
        ).format(count=count, done=status.done, total=max(status.total, 1))
    if status.state is ReindexState.DONE:
        lacking = ""
        if status.unreadable:
            lacking = " " + _("{count} could not be read and are not searchable.").format(
                count=number(status.unreadable)
            )
        return html('<div class="notice" role="status"><p>[[Indexed anew: {} documents.]]{}</p></div>').format(
            number(status.total), lacking
        )
    return Markup(
        '<div class="notice{kind}" role="{role}"><p dir="auto">{said}</p>'
        '<p class="settings-buttons">{on}{over}</p></div>'
    ).format(
        kind=" is-error" if status.error else "",
        role="alert" if status.error else "status",
        said=_("Indexing anew failed at {count}: {error}").format(
            count=count, error=shorten(translate_message(status.error), 600)
        )
        if status.error
        else _(
            "A new index is half built: {count}. Unless a `gircse reindex` runs elsewhere, nothing works on it."
        ).format(count=count),
        on=_button("go-on", _("Go on with it")),
        over=_button("start-over", _("Start over"), confirm=_("Drop the half built index and begin again?")),
    )


def _button(action: str, label: str, *, confirm: str = "") -> Markup:
    return Markup(
        '<button type="button" class="plain-button" data-event="manage" data-action="{}"{}>{}</button>'
    ).format(action, Markup(' data-confirm="{}"').format(confirm) if confirm else "", label)
