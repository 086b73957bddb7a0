"""HTML of scheduled sources on the documents page, and the form to add one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from markupsafe import Markup

from app.types.sources import LONGEST_INTERVAL, SHORTEST_INTERVAL, RecurringSource, SourceKind
from app.types.uris import shown_address
from ui.core_messages import translate_message
from ui.language import _, html, later, moment, ngettext, number
from ui.render.text import clean, join, render_source_link, shorten

KINDS = {
    SourceKind.PAGE: later("Web page"),
    SourceKind.FEED: later("Feed (RSS, Atom)"),
    SourceKind.SITEMAP: later("Sitemap"),
    SourceKind.GIT: later("Git repository"),
    SourceKind.IMAP: later("Mailbox (IMAP)"),
    SourceKind.S3: later("Bucket (S3)"),
}
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def render_sources(sources: Sequence[RecurringSource], credentials: Sequence[str]) -> str:
    """`credentials` are the names that the form suggests."""
    offered = join(Markup('<option value="{}"></option>').format(clean(each)) for each in credentials)
    names = Markup('<datalist id="source-credentials">{}</datalist>').format(offered)
    if not sources:
        return names + html(
            '<p class="kept">[[No scheduled sources yet. Sources that you add here are synced regularly; only '
            "changes are fetched.]]</p>"
        )
    return names + Markup('<ul class="sources">{}</ul>').format(join(map(_source, sources)))


def render_source_form() -> str:
    """The form to add a source to the current collection."""
    kinds = join(Markup('<option value="{}">{}</option>').format(kind.value, _(name)) for kind, name in KINDS.items())
    return html(
        '<div class="source-form" data-form><label for="source-kind">[[Kind]]</label><select id="source-kind" '
        'name="kind">{kinds}</select><label for="source-address">[[Address]]</label><input id="source-address" '
        'name="address" maxlength="2000" placeholder="https://example.org/feed.xml"><label '
        'for="source-every">[[Sync interval in minutes]]</label><input id="source-every" name="every" type="number" '
        'min="{least}" max="{most}" value="1440"><label for="source-removes">[[Documents missing at the '
        'source]]</label><select id="source-removes" name="removes"><option value="">[[keep]]</option><option '
        'value="yes">[[delete]]</option></select><label for="source-patterns">[[Only these paths or '
        'folders]]</label><textarea id="source-patterns" name="patterns" rows="2" '
        'placeholder="docs/**/*.md"></textarea><label for="source-branch">[[Branch or tag]]</label><input '
        'id="source-branch" name="branch" maxlength="200"><label for="source-own">[[Credentials]]</label><input '
        'id="source-own" name="credentials" maxlength="100" list="source-credentials"><p class="hint">[[Enter one '
        "path or folder per line, such as reports/ or *.md (as in .gitignore). Paths, branch and credentials apply "
        "to repositories, mailboxes and buckets. The operator of this server tells you the name of the "
        'credentials.]]</p><button type="button" '
        'class="plain-button" data-event="act" data-action="add-source">[[Add source]]</button></div>'
    ).format(
        kinds=kinds,
        least=SHORTEST_INTERVAL // timedelta(minutes=1),
        most=LONGEST_INTERVAL // timedelta(minutes=1),
    )


def interval(every: timedelta) -> str:
    seconds = int(every.total_seconds())
    if seconds % _DAY == 0:
        days = seconds // _DAY
        return ngettext("every day", "every {count} days", days).format(count=number(days))
    if seconds % _HOUR == 0:
        hours = seconds // _HOUR
        return ngettext("every hour", "every {count} hours", hours).format(count=number(hours))
    minutes = max(1, seconds // _MINUTE)
    return ngettext("every minute", "every {count} minutes", minutes).format(count=number(minutes))


def _source(source: RecurringSource) -> Markup:
    name = shorten(shown_address(source.address), 120)
    return html(
        '<li><div><span class="source-address" dir="auto">{link}</span>'
        '<span class="source-details">{kind} · {every} · {items}{options}</span>'
        '<span class="source-details">{times}</span>{error}</div><span class="source-buttons">'
        '<button type="button" class="plain-button" data-event="act" data-action="run-source" data-subject="{id}" '
        'aria-label="{run}"{busy}>[[Sync now]]</button>'
        '<button type="button" class="plain-button is-danger" data-event="act" data-action="delete-source" '
        'data-subject="{id}" data-confirm="{confirm}" aria-label="{delete}">[[Delete]]</button></span></li>'
    ).format(
        link=render_source_link(source.address, 120),
        kind=_(KINDS[source.kind]),
        every=interval(source.every),
        items=ngettext("{count} document", "{count} documents", source.items).format(count=number(source.items)),
        options=_options(source),
        times=_times(source),
        error=_error(source),
        id=clean(source.id),
        run=_("Sync now: {name}").format(name=name),
        busy=Markup(" disabled") if source.is_running else "",
        confirm=_("Stop syncing {name}? Its documents are kept.").format(name=name),
        delete=_("Delete {name}").format(name=name),
    )


def _options(source: RecurringSource) -> str:
    options = source.options
    parts = [shorten(", ".join(options.patterns), 100)] if options.patterns else []
    parts += [shorten(options.branch, 60)] if options.branch else []
    parts += [_("credentials {name}").format(name=clean(options.credentials))] if options.credentials else []
    parts += [_("deletes missing documents")] if source.removes else []
    return "".join(f" · {each}" for each in parts)


def _times(source: RecurringSource) -> str:
    if source.is_running:
        return _("syncing now")
    if source.last_at is None:
        return _("not synced yet; next sync {at}").format(at=moment(source.next_at))
    counts = _("{changed} changed, {removed} removed, {failed} failed").format(
        changed=number(source.changed), removed=number(source.removed), failed=number(source.failed)
    )
    return _("last sync {last}: {counts}; next sync {at}").format(
        last=moment(source.last_at), counts=counts, at=moment(source.next_at)
    )


def _error(source: RecurringSource) -> Markup:
    if not source.error:
        return Markup("")
    return Markup('<span class="source-error" dir="auto">{}</span>').format(
        shorten(translate_message(source.error), 500)
    )
