"""What the about page says: the product in brief, help with reading it, and the facts of this installation."""

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
NO_CARD = later(
    "The model brings no card of its own: see where you have it from for what it was made and measured with."
)

_HELP = """<section class="help"><h2>[[Help]]</h2>
<dl><dt>[[What does the instruction do?]]</dt>
<dd>[[It says what “similar” should mean. The same words can be read for their topic, their feeling or their place; \
the model turns query and instruction together into one point, and the passages nearest to it are your hits. \
Documents need not be taken in again for another instruction. Lenses are instructions under a name.]]</dd>
<dt>[[What is a step?]]</dt>
<dd>[[Before it searches, the model writes down a blend of words, reads it together with your query, and writes the \
next one. Each of these is a step. The curve shows how far the query still moves; where it lies on the ground, further \
steps change nothing. Fewer steps are faster.]]</dd>
<dt>[[What are the words?]]</dt>
<dd>[[The most probable ones of each blend: a gist of how your query was read. Larger is more probable, pale words \
carry little meaning. Choose a word to say that it matters more, or not at all, and the search runs again. They are no \
proof of why a passage was found.]]</dd>
<dt>[[What is the score?]]</dt>
<dd>[[By meaning: the cosine similarity of query and passage, at most 1. By words: BM25, which has no upper end. Both: \
the two of them fused, from 0 to 1. Compare scores within one list only.]]</dd>
<dt>[[What leaves this machine?]]</dt>
<dd>[[Nothing, as it is installed: the model runs here, and the pages load nothing from elsewhere. The operator can \
give it a database or a Qdrant server on another machine; texts and vectors are there then.]]</dd></dl>
<h3>[[Keys]]</h3><table class="facts keys"><tbody>{}</tbody></table></section>"""

# Shown for a part that does not answer; the reason is for the operator alone (`gircse doctor`).
_ADVICE = {
    "catalog": later("The database does not answer, so nothing can be searched or taken in."),
    "index": later("The vector index does not answer, so nothing can be searched. Documents wait until it does."),
    "embedder": later("The model does not answer, so nothing can be searched. It may be out of memory."),
    "worker": later("No worker is at work: what was handed in waits until one is."),
}
_PARTS = {
    "catalog": later("catalog"),
    "index": later("index"),
    "embedder": later("embedder"),
    "worker": later("worker"),
    "integrity": later("integrity"),
}


def render_introduction() -> Markup:
    return html(
        '<section class="introduction"><h1>[[About gircse-search]]</h1><p>{} [[Its embedder, after the paper GIRCSE, '
        "generates words before it makes the meaning, and shows you these words, so that you can steer them. It runs "
        "on your own machine, with your own documents.]]</p></section>"
    ).format(_(PURPOSE))


def render_help() -> Markup:
    return html(_HELP).format(
        join(
            Markup('<tr><th scope="row">{}</th><td>{}</td></tr>').format(render_keys(keys), _(meaning))
            for keys, meaning in SHORTCUTS
        )
    )


def render_faithfulness(about: AboutInfo) -> Markup:
    """Empty until something was measured."""
    if not about.faithfulness:
        return Markup("")
    return html('<section class="markdown"><h2>[[How faithful the explanations are]]</h2>{}</section>').format(
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
    """None of a part that was not asked yet, or has not answered."""
    rows = join(_render_part(name, is_well) for name, is_well in answers.items())
    if any(is_well is None for is_well in answers.values()):
        said = _("Asking every part …")
    elif all(answers.values()):
        said = _("Every part works.") if answers else _("There is nothing to ask here.")
    else:
        said = _("{count} of {total} parts do not work.").format(
            count=sum(not is_well for is_well in answers.values()), total=len(answers)
        )
    return html('<section class="health"><h2>[[Health]]</h2><p role="status">{}</p><ul>{}</ul></section>').format(
        said, rows
    )


def _render_part(name: str, is_well: bool | None) -> Markup:
    kind, sign, word = ("waits", "…", _("asking")) if is_well is None else ("works", "✓", _("works"))
    advice: str = ""
    if is_well is False:
        kind, sign, word = "fails", "✗", _("does not work")
        advice = html(
            '<span class="advice">{} [[What is the reason, and what to do, the machine that runs it tells by]] '
            "<code>gircse doctor</code>.</span>"
        ).format(_(_ADVICE.get(name, later("This part does not answer."))))
    return Markup(
        '<li class="part is-{}"><span class="sign" aria-hidden="true">{}</span><b>{}</b> <span>{}</span>{}</li>'
    ).format(kind, sign, _(_PARTS.get(name, shorten(name, 40))), word, advice)


def render_model(about: AboutInfo) -> Markup:
    facts: list[tuple[str, str | Markup]] = [(_("Name"), shorten(about.model_name, 120))]
    if about.model is not None:
        model = about.model
        facts += [
            (_("Fingerprint"), _render_fingerprint(model.fingerprint)),
            (_("Dimensions"), number(model.dimension)),
            (
                _("Steps of a query"),
                _("{count} by default, at most {most}").format(count=model.default_query_steps, most=model.max_steps),
            ),
            (_("Steps of a document"), _("{count} by default").format(count=model.default_document_steps)),
            (_("Instruction of a query"), _render_instruction(model.default_query_instruction)),
            (_("Instruction of a document"), _render_instruction(model.default_document_instruction)),
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
    facts += [(_("Catalog"), shorten(_(about.catalog_kind), 80))] if about.catalog_kind else []
    facts += [(_("Vector index"), shorten(_(about.index_kind), 80))] if about.index_kind else []
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
        '<span class="advice">[[Written by another model, so it cannot be searched:]] <code>gircse reindex '
        "{}</code></span>"
    ).format(shorten(collection.name, 80))
