"""An answer with its citations, above the passages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from markupsafe import Markup

from app.types.answers import NO_ANSWER, Answer, AnswerKind, AnswerSentence, Passage, Turn
from ui.core_messages import translate_message
from ui.language import _, html
from ui.render.snippets import without_signs
from ui.render.text import clean, join, name_of, shorten

_LONGEST_SENTENCE = 2_000


def render_answer(
    answer: Answer,
    sentences: Sequence[AnswerSentence],
    *,
    turns: Sequence[Turn] = (),
    unchecked: str = "",
    is_whole: bool,
    model: str | None = None,
) -> str:
    """`unchecked` is generated text after the checked `sentences`; `model` is a language model that can be asked next.

    Buttons have data-event="open" with a passage, or data-event="ask" with the question and earlier turns.
    """
    passages = {each.number: each for each in answer.passages}
    body = join(_render_sentence(each, passages) for each in sentences)
    if unchecked:
        body += Markup('<span class="unchecked">{}</span>').format(shorten(unchecked, _LONGEST_SENTENCE))
    if not body:
        body = _render_refusal(answer, passages) if is_whole else html("[[Searching for an answer]] …")
    return html(
        '<section class="cited" aria-label="[[Answer]]"><h2>{title}</h2>{before}<p class="cited-text" dir="auto" '
        'role="status" aria-busy="{busy}">{body}</p>{notes}{sources}{sent}{more}</section>'
    ).format(
        title=_title(answer),
        before=_render_turns(turns),
        busy="false" if is_whole else "true",
        body=body,
        notes=_render_notes(answer) if is_whole else "",
        sources=_render_sources(sentences, passages) if is_whole else "",
        sent=_render_sent(answer),
        more=_render_more(answer, turns, model) if is_whole else "",
    )


def _render_refusal(answer: Answer, passages: dict[int, Passage]) -> Markup:
    """Says that no passage answers, and quotes the nearest sentence."""
    if answer.nearest is None:
        return html("[[No passage answers this.]]")
    return html("[[No passage answers this.]] [[The nearest sentence:]] <q>{text}</q>{cited}").format(
        text=_shown_text(answer.nearest, passages),
        cited=join(_render_citation(passages[number], answer.nearest) for number in answer.nearest.citations),
    )


def _title(answer: Answer) -> str:
    if answer.kind is AnswerKind.EXTRACT:
        return _("Answer, quoted from the documents")
    return _("Answer, written by {model}").format(model=shorten(answer.model or "", 60))


def _render_turns(turns: Sequence[Turn]) -> Markup:
    return join(
        Markup('<details class="cited-turn"><summary dir="auto">{}</summary><p dir="auto">{}</p></details>').format(
            shorten(each.question, 200), shorten(each.answer, _LONGEST_SENTENCE)
        )
        for each in turns
    )


def _render_sentence(sentence: AnswerSentence, passages: dict[int, Passage]) -> Markup:
    text = _shown_text(sentence, passages)
    cited = join(_render_citation(passages[number], sentence) for number in sentence.citations if number in passages)
    if sentence.is_supported:
        return Markup("<span>{}</span>{} ").format(text, cited)
    return html(
        '<span class="unsupported">{}</span>{}<span class="doubt" title="[[The cited passages do not seem to '
        'support this.]]">[[no support found]]</span> '
    ).format(text, cited)


def _shown_text(sentence: AnswerSentence, passages: dict[int, Passage]) -> str:
    text = sentence.text
    if sentence.start is not None and sentence.end is not None:
        passage = passages[sentence.citations[0]]
        text = without_signs(passage.chunk.text, sentence.start, sentence.end, uri=passage.document.uri)
    return shorten(text, _LONGEST_SENTENCE)


def _render_citation(passage: Passage, sentence: AnswerSentence | None = None) -> Markup:
    place = ""
    if sentence is not None and sentence.start is not None and sentence.end is not None:
        place = f"{passage.chunk.start + sentence.start}-{passage.chunk.start + sentence.end}"
    return html(
        '<button type="button" class="cite" data-event="open" data-document="{document}" data-chunk="{chunk}" '
        'data-sentence="{place}" data-page="{page}" aria-label="[[Passage {number}: {title}]]">{number}</button>'
    ).format(
        document=clean(passage.document.id),
        chunk=clean(passage.chunk.id),
        place=place,
        page="" if passage.chunk.page is None else passage.chunk.page,
        number=passage.number,
        title=shorten(name_of(passage.document), 80),
    )


def _render_notes(answer: Answer) -> Markup:
    notes = [each for each in answer.notes if each != NO_ANSWER]
    return join(
        Markup('<p class="hint" dir="auto">{}</p>').format(shorten(translate_message(each), 500)) for each in notes
    )


def _render_sources(sentences: Sequence[AnswerSentence], passages: dict[int, Passage]) -> Markup:
    cited = sorted({number for each in sentences for number in each.citations if number in passages})
    if not cited:
        return Markup("")
    return Markup('<ul class="cited-sources">{}</ul>').format(
        join(
            Markup('<li dir="auto">{} {}</li>').format(
                _render_citation(passages[number]), shorten(name_of(passages[number].document), 100)
            )
            for number in cited
        )
    )


def _render_sent(answer: Answer) -> Markup:
    """The exact text that was sent to the language model."""
    if not answer.sent:
        return Markup("")
    return html('<details class="cited-sent"><summary>[[What was sent]]</summary>{}</details>').format(
        join(
            Markup('<h3>{}</h3><pre dir="auto" tabindex="0">{}</pre>').format(each.role, clean(each.content))
            for each in answer.sent
        )
    )


def _render_more(answer: Answer, turns: Sequence[Turn], model: str | None) -> Markup:
    before = _turns_as_json(turns)
    said = " ".join(each.text for each in answer.sentences) or NO_ANSWER
    after = _turns_as_json([*turns, Turn(answer.question, said)])
    ask = html(
        '<button type="button" class="plain-button" data-event="ask" data-kind="generate" data-question="{question}" '
        'data-turns="{turns}" title="[[Sends the question and these passages to the model.]]">[[Ask {model}]]</button>'
    ).format(question=clean(answer.question), turns=before, model=shorten(model or "", 40))
    form = html(
        '<form data-kind="{kind}" data-turns="{turns}"><input name="question" type="text" maxlength="2000" '
        'aria-label="[[Follow-up question]]" placeholder="[[Ask a follow-up question …]]"><button type="submit" '
        'class="plain-button">[[Ask]]</button></form>'
    ).format(kind=answer.kind.value, turns=after)
    return Markup('<div class="cited-more">{}{}</div>').format(
        form, ask if model and answer.kind is AnswerKind.EXTRACT else ""
    )


def _turns_as_json(turns: Sequence[Turn]) -> str:
    return json.dumps([[clean(each.question), clean(each.answer)] for each in turns], ensure_ascii=False)
