"""HTML of the about page: introduction, help and facts of this installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from app.types.documents import CountedCollection
from ui.contract import DOCUMENTS, PURPOSE, AboutInfo
from ui.language import _, html, later, number
from ui.render.frame import SHORTCUTS, render_keys
from ui.render.markdown import render_markdown
from ui.render.text import join, shorten

FINGERPRINT_CHARS = 12
NO_CARD = later("This model has no card. See its source for training data and evaluation.")

_HELP = """<section class="help"><h2>[[Help]]</h2>
<dl><dt>[[What does the instruction do?]]</dt>
<dd>[[It says what “similar” should mean: for example topic, feeling or place. The model turns query and instruction \
into one vector. Your hits are the passages nearest to it. You can change the instruction without reindexing \
documents. A lens is an instruction with a name.]]</dd>
<dt>[[What is a step?]]</dt>
<dd>[[Before it searches, the model refines your query in steps. In each step it adds a blend of words and reads the \
query again. The curve shows how much the query still changes. Once the curve is flat, more steps change nothing. \
Fewer steps are faster.]]</dd>
<dt>[[What are the words?]]</dt>
<dd>[[They show how the model read your query: the most probable words of each step. Larger words are more probable; \
pale words carry little meaning. Pick a word to make it count more or less; the search then runs again. The words do \
not prove why a passage was found.]]</dd>
<dt>[[What is the score?]]</dt>
<dd>[[By meaning: how close query and passage are in meaning (their cosine similarity), at most 1. By words: how well \
the words match, with no upper limit. Both: a combination of the two, from 0 to 1. Only compare scores within one \
list.]]</dd>
<dt>[[What leaves this machine?]]</dt>
<dd>[[By default, nothing: the model runs here, and the pages load nothing from other servers. If the operator sets \
up a database or Qdrant server elsewhere, texts and vectors are stored there.]]</dd></dl>
<h3>[[Keys]]</h3><table class="facts keys"><tbody>{}</tbody></table></section>"""

# Shown for a part that does not respond; only the operator sees the reason (`gircse doctor`).
_ADVICE = {
    "catalog": later("The database does not respond. Search and indexing are unavailable."),
    "index": later("The search index does not respond. Search is unavailable; new documents wait."),
    "embedder": later("The model does not respond. Search is unavailable. It may be out of memory."),
    "worker": later("No worker is running. New documents wait until one starts."),
}
_PARTS = {
    "catalog": later("documents and settings"),
    "index": later("search index"),
    "embedder": later("model"),
    "worker": later("indexing of new documents"),
    "integrity": later("stored data"),
}


def render_introduction() -> Markup:
    return html(
        '<section class="introduction"><h1>[[About gircse-search]]</h1><p>{} [[Its model, based on the GIRCSE paper, '
        "first generates words for a text and then turns it into a vector: numbers that stand for its meaning. You see "
        "these words and can steer them. Everything runs on your own machine with your own documents.]]</p></section>"
    ).format(_(PURPOSE))


def render_help() -> Markup:
    return html(_HELP).format(
        join(
            Markup('<tr><th scope="row">{}</th><td>{}</td></tr>').format(render_keys(keys), _(meaning))
            for keys, meaning in SHORTCUTS
        )
    )


def render_faithfulness(about: AboutInfo) -> Markup:
    """Empty if nothing was measured."""
    if not about.faithfulness:
        return Markup("")
    return html('<section class="markdown"><h2>[[Accuracy of the explanations]]</h2>{}</section>').format(
        render_markdown(_(about.faithfulness))
    )


def render_card(about: AboutInfo) -> Markup:
    card = about.model.card if about.model else None
    content = render_markdown(card) if card else Markup('<p class="hint">{}</p>').format(_(NO_CARD))
    return html(
        '<section class="markdown"><h2>[[Model card]]</h2><div class="card" lang="en" tabindex="0" role="region" '
        'aria-label="[[Model card]]">{}</div></section>'
    ).format(content)


def render_health(answers: Mapping[str, bool | None]) -> Markup:
    """`answers` is None for a part whose check has not finished."""
    rows = join(_render_part(name, is_well) for name, is_well in answers.items())
    if any(is_well is None for is_well in answers.values()):
        said = _("Checking all parts …")
    elif all(answers.values()):
        said = _("All parts work.") if answers else _("There is nothing to check here.")
    else:
        said = _("{count} of {total} parts do not work.").format(
            count=sum(not is_well for is_well in answers.values()), total=len(answers)
        )
    return html('<section class="health"><h2>[[Health]]</h2><p role="status">{}</p><ul>{}</ul></section>').format(
        said, rows
    )


def _render_part(name: str, is_well: bool | None) -> Markup:
    kind, sign, word = ("waits", "…", _("checking")) if is_well is None else ("works", "✓", _("works"))
    advice: str = ""
    if is_well is False:
        kind, sign, word = "fails", "✗", _("does not work")
        advice = html(
            '<span class="advice">{} [[To see the reason and the fix, run on the server:]] '
            "<code>gircse doctor</code>.</span>"
        ).format(_(_ADVICE.get(name, later("This part does not respond."))))
    return Markup(
        '<li class="part is-{}"><span class="sign" aria-hidden="true">{}</span><b>{}</b> <span>{}</span>{}</li>'
    ).format(kind, sign, _(_PARTS.get(name, shorten(name, 40))), word, advice)


def render_model(about: AboutInfo) -> Markup:
    facts: list[tuple[str, str | Markup]] = [(_("Name"), shorten(about.model_name, 120))]
    if about.model is not None:
        model = about.model
        facts += [
            (_("Identifier"), _render_fingerprint(model.fingerprint)),
            (_("Dimensions"), number(model.dimension)),
            (
                _("Steps per query"),
                _("{count} by default, at most {most}").format(count=model.default_query_steps, most=model.max_steps),
            ),
            (_("Steps per document"), _("{count} by default").format(count=model.default_document_steps)),
            (_("Query instruction"), _render_instruction(model.default_query_instruction)),
            (_("Document instruction"), _render_instruction(model.default_document_instruction)),
        ]
    return html('<section><h2>[[Model]]</h2><table class="facts"><tbody>{}</tbody></table></section>').format(
        _render_facts(facts)
    )


def _render_fingerprint(fingerprint: str) -> Markup:
    return Markup('<code title="{}">{}</code>').format(
        shorten(fingerprint, 200), shorten(fingerprint[:FINGERPRINT_CHARS], 200)
    )


def _render_instruction(instruction: str) -> Markup:
    return Markup("<q>{}</q>").format(shorten(instruction, 300)) if instruction else html("[[none by default]]")


def render_versions(about: AboutInfo) -> Markup:
    facts: list[tuple[str, str | Markup]] = [
        (name, shorten(version, 80)) for name, version in (about.versions or {"gircse-search": about.version}).items()
    ]
    facts += [(_("Database"), shorten(_(about.catalog_kind), 80))] if about.catalog_kind else []
    facts += [(_("Search index"), shorten(_(about.index_kind), 80))] if about.index_kind else []
    return html(
        '<section><h2>[[Versions and parts]]</h2><table class="facts"><tbody>{}</tbody></table></section>'
    ).format(_render_facts(facts))


def _render_facts(facts: Sequence[tuple[str, str | Markup]]) -> Markup:
    return join(
        Markup('<tr><th scope="row">{}</th><td dir="auto">{}</td></tr>').format(shorten(name, 60), value)
        for name, value in facts
    )


def render_collections_heading() -> Markup:
    return html("<section><h2>[[Collections]]</h2></section>")


def render_collections(collections: Sequence[CountedCollection], fingerprint: str) -> Markup:
    if not collections:
        return html('<p class="hint">[[None yet. Add documents:]] <a href="{}">[[Documents]]</a></p>').format(
            DOCUMENTS.path
        )
    rows = join(
        Markup(
            '<tr><th scope="row" dir="auto">{}{}</th><td class="number">{}</td><td class="number">{}</td></tr>'
        ).format(
            shorten(each.name, 80),
            _render_mismatch(each, fingerprint),
            number(each.document_count),
            number(each.chunk_count),
        )
        for each in collections
    )
    return html(
        '<table class="facts collections"><thead><tr><th scope="col">[[Name]]</th><th scope="col">[[Documents]]</th>'
        '<th scope="col">[[Passages]]</th></tr></thead><tbody>{}</tbody></table>'
    ).format(rows)


def _render_mismatch(collection: CountedCollection, fingerprint: str) -> Markup:
    if not fingerprint or collection.fingerprint == fingerprint:
        return Markup("")
    return html(
        '<span class="advice">[[Not searchable, because another model indexed it:]] <code>gircse reindex '
        "{}</code></span>"
    ).format(shorten(collection.name, 80))
