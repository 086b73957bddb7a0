"""HTML of a saved search's alert: match strength, new matches, feed and notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.types.search import Match
from app.types.standing import MAX_WEBHOOK_CHARACTERS, Channel, News, StandingSearch, Strength
from ui.language import _, html, later, moment, number
from ui.render.text import clean, join, shorten

SHOWN_NEWS = 10
_STRENGTHS = {Strength.FAIR: later("fair answers and better"), Strength.STRONG: later("strong answers only")}
_MATCHES = {Match.FAIR: later("fair"), Match.STRONG: later("strong")}


@dataclass(frozen=True, slots=True)
class ShownStanding:
    """The alert of a saved search, as shown. `feed` is the path of its feed; `alerts` are the available notification
    targets."""

    search: StandingSearch
    news: Sequence[News]
    feed: str
    alerts: Sequence[str]
    failures: Mapping[Channel, str]


def render_watch_button(search_id: str, name: str) -> Markup:
    return html(
        '<button type="button" class="plain-button" data-event="act" data-action="watch" data-subject="{id}" '
        'aria-label="{label}">[[Watch]]</button>'
    ).format(id=clean(search_id), label=_("Watch {name}").format(name=shorten(name, 120)))


def render_standing(shown: ShownStanding) -> Markup:
    search = shown.search
    return html(
        '<details class="standing" data-keep="{id}"{open}><summary>{count}<span class="kept-details">'
        "[[watched since {since}]]</span></summary>{error}{news}{settings}</details>"
    ).format(
        id=clean(search.id),
        open=Markup(" open") if search.unseen or search.error else "",
        count=Markup('<span class="standing-count{}">{}</span> ').format(
            Markup(" has-news") if search.unseen else "",
            _("{count} new").format(count=number(search.unseen)) if search.unseen else _("nothing new"),
        ),
        since=moment(search.since),
        error=_warning(_("The search cannot run: {reason}").format(reason=clean(search.error))) if search.error else "",
        news=_news(shown),
        settings=_settings(shown),
    )


def _news(shown: ShownStanding) -> Markup:
    if not shown.news:
        return html('<p class="hint">[[New passages that match this search will appear here.]]</p>')
    more = shown.search.unseen - len(shown.news)
    return html(
        '<ul class="news">{items}</ul>{more}<p><button type="button" class="plain-button" data-event="act" '
        'data-action="seen" data-subject="{id}" aria-label="{label}">[[Mark all as seen]]</button></p>'
    ).format(
        items=join(map(_item, shown.news)),
        more=html('<p class="hint">[[and {} more]]</p>').format(number(more)) if more > 0 else "",
        id=clean(shown.search.id),
        label=_("Mark all of {name} as seen").format(name=shorten(shown.search.name, 80)),
    )


def _item(news: News) -> Markup:
    return Markup(
        '<li><strong dir="auto">{}</strong> <span class="kept-details">{} · {}</span><span dir="auto">{}</span></li>'
    ).format(
        shorten(news.title or news.uri, 120), _(_MATCHES.get(news.match, "")), moment(news.matched_at),
        shorten(news.text, 280),
    )  # fmt: skip


def _settings(shown: ShownStanding) -> Markup:
    search = shown.search
    ids = {name: f"{name}-{clean(search.id)}" for name in ("strength", "webhook", "alert", "feed")}
    return html(
        '<div class="standing-settings" data-form>'
        '<label for="{strength_id}">[[Notify about]]</label>'
        '<select id="{strength_id}" name="strength">{strengths}</select>'
        '<label for="{webhook_id}">[[Webhook]]</label>'
        '<input id="{webhook_id}" name="webhook" type="url" maxlength="{most}" '
        'placeholder="https://" value="{webhook}">{webhook_note}{alert}'
        '<span class="standing-buttons"><button type="button" class="plain-button" data-event="act" '
        'data-action="rewatch" data-subject="{id}" aria-label="{save_label}">[[Save]]</button>'
        '<button type="button" class="plain-button is-danger" data-event="act" data-action="unwatch" '
        'data-subject="{id}" '
        'data-confirm="{confirm}" aria-label="{stop_label}">[[Stop watching]]</button></span>'
        '<label for="{feed_id}">[[Feed (Atom)]]</label><input id="{feed_id}" readonly data-path="{feed}" '
        'value="{feed}">'
        '<span class="standing-buttons">'
        '<button type="button" class="plain-button" data-copy="{feed}" data-is-address="yes" '
        'aria-label="{copy_label}">[[Copy]]</button>'
        '<button type="button" class="plain-button" data-event="act" data-action="renew-feed" data-subject="{id}" '
        'data-confirm="{renew_confirm}" aria-label="{renew_label}">[[Renew]]</button></span>'
        '<p class="hint">[[Anyone with this address can read the matches.]]</p></div>'
    ).format(
        strength_id=ids["strength"],
        webhook_id=ids["webhook"],
        feed_id=ids["feed"],
        strengths=join(
            Markup('<option value="{}"{}>{}</option>').format(
                each.value, Markup(" selected") if each is search.watch.strength else "", _(label)
            )
            for each, label in _STRENGTHS.items()
        ),
        most=MAX_WEBHOOK_CHARACTERS,
        webhook=clean(search.watch.webhook or ""),
        webhook_note=_webhook_note(shown),
        alert=_alert(shown, ids["alert"]),
        feed=clean(shown.feed),
        id=clean(search.id),
        confirm=_("Stop watching and delete the matches found so far?"),
        renew_confirm=_("Create a new feed address? The current one will stop working."),
        save_label=_("Save the alert settings of {name}").format(name=shorten(search.name, 80)),
        stop_label=_("Stop watching {name}").format(name=shorten(search.name, 80)),
        copy_label=_("Copy the address of the feed of {name}").format(name=shorten(search.name, 80)),
        renew_label=_("Renew the address of the feed of {name}").format(name=shorten(search.name, 80)),
    )


def _webhook_note(shown: ShownStanding) -> Markup:
    if not shown.search.watch.webhook:
        return Markup("")
    secret = html('<p class="hint">[[Messages are signed with this secret: {}]]</p>').format(
        Markup("<code>{}</code>").format(shown.search.webhook_secret)
    )
    return secret + _failure(shown, Channel.WEBHOOK)


def _alert(shown: ShownStanding, field_id: str) -> Markup:
    chosen = shown.search.watch.alert
    if not shown.alerts and not chosen:
        return Markup("")
    options = ["", *shown.alerts, *([chosen] if chosen and chosen not in shown.alerts else [])]
    return html(
        '<label for="{id}">[[Mail or chat]]</label><select id="{id}" name="alert">{options}</select>{note}'
    ).format(
        id=field_id,
        options=join(
            Markup('<option value="{}"{}>{}</option>').format(
                clean(each), Markup(" selected") if each == (chosen or "") else "", clean(each) or _("none")
            )
            for each in options
        ),
        note=_failure(shown, Channel.ALERT),
    )


def _failure(shown: ShownStanding, channel: Channel) -> Markup:
    reason = shown.failures.get(channel)
    return _warning(_("The last delivery failed: {reason}").format(reason=clean(reason))) if reason else Markup("")


def _warning(text: str) -> Markup:
    return Markup('<p class="standing-warning" role="status">{}</p>').format(text)
