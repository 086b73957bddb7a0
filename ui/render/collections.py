"""HTML of a collection's settings and reindexing progress."""

from __future__ import annotations

from markupsafe import Markup

from app.types.documents import Collection
from app.types.upkeep import ReindexState, ReindexStatus
from ui.core_messages import translate_message
from ui.language import _, html, number
from ui.render.text import clean, shorten


def render_settings(collection: Collection, reindex: ReindexStatus) -> str:
    pause = ("resume", _("Resume indexing")) if collection.is_paused else ("pause", _("Pause indexing"))
    return html(
        '<dl class="facts"><div><dt>[[Document instruction]]</dt><dd '
        'dir="auto">{instruction}</dd></div><div><dt>[[Steps per '
        "document]]</dt><dd>{steps}</dd></div><div><dt>[[Passages]]</dt><dd>"
        "{tokens} "
        "[[tokens, overlap {overlap}]]</dd></div><div><dt>[[Model]]</dt><dd><code "
        'title="{fingerprint}">{short}</code></dd></div></dl><p '
        'class="settings-buttons">{pause}{back}</p>{reindex}'
    ).format(
        instruction=shorten(collection.document_instruction, 300) or _("none"),
        steps=collection.document_steps,
        tokens=collection.chunk_tokens,
        overlap=collection.chunk_overlap,
        fingerprint=clean(collection.fingerprint),
        short=clean(collection.fingerprint)[:12],
        pause=_button(*pause),
        back=_button(
            "roll-back",
            _("Restore previous index"),
            confirm=_("Restore the previous index of this collection?"),
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
            '<div class="notice" role="status"><p>[[Reindexing: {count}. You can leave this page.]]</p><progress '
            'max="{total}" value="{done}" aria-label="[[Reindexing]]">{count}</progress></div>'
        ).format(count=count, done=status.done, total=max(status.total, 1))
    if status.state is ReindexState.DONE:
        lacking = ""
        if status.unreadable:
            lacking = " " + _("{count} failed and are not searchable.").format(count=number(status.unreadable))
        return html('<div class="notice" role="status"><p>[[Reindexed: {} documents.]]{}</p></div>').format(
            number(status.total), lacking
        )
    return Markup(
        '<div class="notice{kind}" role="{role}"><p dir="auto">{said}</p>'
        '<p class="settings-buttons">{on}{over}</p></div>'
    ).format(
        kind=" is-error" if status.error else "",
        role="alert" if status.error else "status",
        said=_("Reindexing failed at {count}: {error}").format(
            count=count, error=shorten(translate_message(status.error), 600)
        )
        if status.error
        else _(
            "Unfinished new index: {count}. Continue or start over, unless `gircse reindex` is running elsewhere."
        ).format(count=count),
        on=_button("go-on", _("Continue")),
        over=_button("start-over", _("Start over"), confirm=_("Discard the unfinished index and start over?")),
    )


def _button(action: str, label: str, *, confirm: str = "") -> Markup:
    return Markup(
        '<button type="button" class="plain-button" data-event="manage" data-action="{}"{}>{}</button>'
    ).format(action, Markup(' data-confirm="{}"').format(confirm) if confirm else "", label)
