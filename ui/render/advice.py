"""Advice for searches without good hits or in an unsupported language."""

from __future__ import annotations

from markupsafe import Markup

from app.types.search import ALL_COLLECTIONS, SearchMode, SearchResult, UnreadLanguage, UnreadRanking
from ui.choices import Choices
from ui.contract import DOCUMENTS
from ui.core_messages import translate_message
from ui.language import _, html, later, number
from ui.render.lens_values import name_value
from ui.render.text import join, shorten

_RANKINGS = {
    UnreadRanking.WORDS: later("A search by meaning and words relies on the words."),
    UnreadRanking.TUNED: later("Words and meaning count by the weights that are tuned for this collection."),
    UnreadRanking.MEANING: later("The hits are ranked by meaning alone, which the model may misread."),
    UnreadRanking.MODEL: later("The hits are ranked again by a model, which may misread the query."),
}
_BY_MEANING = later("Ask in {} to search by meaning, too.")
_BETTER = later("Ask in {} for better hits.")


def render_weak(result: SearchResult, chosen: Choices) -> Markup:
    return html(
        '<details class="notice"><summary>[[No passage seems to answer this.]]</summary><p>[[These are the nearest '
        "passages, but they are no closer than passages for unrelated questions.]]</p>{}</details>"
    ).format(_what_to_try(result, chosen))


def render_notes(result: SearchResult) -> Markup:
    """Notes on collections that a search of all collections skipped."""
    notes = result.notes if result.collection == ALL_COLLECTIONS else ()
    notes = tuple(each for each in notes if each != str(result.unread))
    return join(
        Markup('<p class="hint" dir="auto">{}</p>').format(shorten(translate_message(each), 1000)) for each in notes
    )


def render_nothing_found(result: SearchResult, chosen: Choices) -> Markup:
    return Markup('<div class="notice" role="status"><p dir="auto">{}</p>{}</div>').format(
        _nothing_found(result, chosen), _what_to_try(result, chosen)
    )


def render_language(unread: UnreadLanguage | None) -> Markup:
    """A notice for queries in a language that the model does not support. One line, so that the hits stay visible."""
    if not unread:
        return Markup("")
    read, language = _(unread.read), _(unread.language)
    ranking = "" if unread.ranking is None else _(_RANKINGS[unread.ranking])
    return html(
        '<details class="notice"><summary>[[This model supports {}, not {}.]]</summary><p>[[Your query looks like '
        "{}.]] {} {}</p></details>"
    ).format(read, language, language, ranking, _(_advice(unread.ranking)).format(read))


def _advice(ranking: UnreadRanking | None) -> str:
    return _BY_MEANING if ranking is UnreadRanking.WORDS else _BETTER


def _nothing_found(result: SearchResult, chosen: Choices) -> str:
    if chosen.value and result.values is not None and result.values.passages:
        named = name_value(chosen.value)
        return _("None of the {count} passages is “{value}”. Choose another value above.").format(
            count=number(result.values.passages), value=named
        )
    if chosen.filters:
        return _("No passage matches all filters.")
    if result.mode is SearchMode.SPARSE:
        return _("No passage contains these words.")
    return _("The collection “{name}” has no matching passages.").format(name=shorten(result.collection, 80))


def _what_to_try(result: SearchResult, chosen: Choices) -> Markup:
    """Suggestions, most likely ones first."""
    tries = []
    if not chosen.is_empty:
        tries.append(
            html(
                '<button type="button" class="plain-button" data-event="choose" data-action="drop-all" '
                'data-subject="">[[Clear all]]</button>: {}'
            ).format(_("fewer filters find more") if chosen.filters else _("it changes the query"))
        )
    if result.mode is SearchMode.SPARSE:
        tries.append(html("[[Choose “Meaning” or “Both” under Settings to find other wordings]]"))
    elif result.mode is SearchMode.DENSE:
        tries.append(html("[[Choose “Words” or “Both” under Settings to find names and numbers]]"))
    else:
        tries.append(html("[[Use words that the document would use, and ask about one thing at a time]]"))
    if result.instruction:
        tries.append(html("[[Choose “No lens”, which suits questions best]]"))
    tries.append(
        html('[[Choose another collection]] · <a href="{}">[[Add documents to “{}”]]</a>').format(
            DOCUMENTS.path, shorten(result.collection, 80)
        )
    )
    return Markup("<ul>{}</ul>").format(join(Markup("<li>{}</li>").format(each) for each in tries))
