"""HTML of a query's refinement: the words of each step, and convergence of the vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from app.search.soft_tokens import GroupToken, RefinementGroup
from embedder.refinement_steps import RefinementStep
from ui.choices import Choices
from ui.language import _, html, number
from ui.render.curve import render_curve
from ui.render.text import clean, join, shorten

WORDS_PER_LINE = 16  # the browser hides words that do not fit
TOKENS_PER_GROUP = 16
STOP_WORDS_PER_GROUP = 5
TOKENS_PER_STEP = 10
TOKEN_SIZES = 5


def render_reading(
    groups: Sequence[RefinementGroup],
    steps: Sequence[RefinementStep],
    chosen: Choices,
    *,
    is_complete: bool = True,
    is_ranking: bool = True,
    read_text: str = "",
) -> str:
    """The heaviest words in one line; a click unfolds the whole refinement. `read_text` is the part of the query that
    the search used, if not all."""
    if not groups:
        return render_read_text(read_text)
    words = join(
        Markup('<li class="token{}" dir="auto">{}</li>').format(
            " is-boosted" if chosen.bias.get(word, 0) > 0 else "", _render_menu(word, f"line-{place}")
        )
        for place, word in enumerate(heaviest_words(groups)[:WORDS_PER_LINE])
    )
    return html(
        '<section class="reading{}" aria-label="[[Refinement words]]"><p>[[Words from the model:]]</p><ul '
        'class="tokens">{}</ul><button type="button" data-toggle="refinement" aria-expanded="false" '
        'aria-controls="refinement">[[Details]]</button>{}<div id="refinement">{}</div></section>'
    ).format(
        "" if is_complete else " is-unfinished",
        words or html("<li>[[no meaningful words]]</li>"),
        render_read_text(read_text),
        render_refinement(groups, steps, chosen, is_complete=is_complete, is_ranking=is_ranking),
    )


def render_read_text(read_text: str) -> Markup:
    """A note with the part of the query that the search used; empty if it used all."""
    if not read_text:
        return Markup()
    said = _("The search uses only this part of the query: “{text}”")
    return Markup('<p class="hint read-text" dir="auto">{}</p>').format(said.format(text=shorten(read_text, 300)))


def heaviest_words(groups: Sequence[RefinementGroup]) -> list[str]:
    """Words of all steps without stop words, by highest mean probability in a group of steps."""
    means: dict[str, float] = {}
    for group in groups:
        for token in group.tokens:
            if not token.is_stop_word:
                means[token.token] = max(means.get(token.token, 0.0), token.weight / _step_count(group))
    return sorted(means, key=lambda word: (-means[word], word))


def render_refinement(
    groups: Sequence[RefinementGroup],
    steps: Sequence[RefinementStep],
    chosen: Choices | None = None,
    *,
    is_complete: bool = True,
    is_ranking: bool = True,
    part: str = "all",
) -> str:
    """`chosen` marks boosted and suppressed words. None: a read-only page without buttons.

    `is_ranking`: whether the words affected the ranking. `part` makes ids unique on a page with several refinements.
    """
    if not groups:
        return ""
    return html(
        '<section class="refinement{}"><h2>[[How the model read your query]]</h2><p class="hint">[[The model '
        "generates words before it searches. Larger words are more probable; pale words carry little "
        'meaning.]]{}{}</p>{}{}<details class="every-step"><summary>[[Every step]]</summary>{}</details></section>'
    ).format(
        "" if is_complete else " is-unfinished",
        "" if chosen is None else " " + _("Pick a word to see more or fewer passages about it."),
        "" if is_ranking else " " + _("These words affect the ranking only with an instruction, or once you pick one."),
        join(
            _render_group(
                group,
                None if chosen is None else chosen.bias,
                key=f"{part}-{index}",
                is_first=index == 0,
                heaviest=_heaviest(groups),
            )
            for index, group in enumerate(groups)
        ),
        render_curve(steps) if is_complete else "",
        _render_steps(steps),
    )


def _heaviest(groups: Sequence[RefinementGroup]) -> float:
    """The highest mean probability without stop words: a frequent "the" must not shrink all other words."""
    means = (token.weight / _step_count(group) for group in groups for token in group.tokens if not token.is_stop_word)
    return max(means, default=0.0)


def _step_count(group: RefinementGroup) -> int:
    return group.last_step - group.first_step + 1


def _render_group(
    group: RefinementGroup, bias: Mapping[str, float] | None, *, key: str, is_first: bool, heaviest: float
) -> Markup:
    words_of_substance = [token for token in group.added if not token.is_stop_word][:TOKENS_PER_GROUP]
    shown = [*words_of_substance, *[token for token in group.added if token.is_stop_word][:STOP_WORDS_PER_GROUP]]
    words = join(
        _render_token(token, heaviest * _step_count(group), bias, f"{key}-{place}") for place, token in enumerate(shown)
    )
    kept = ", ".join(clean(token.token) for token in group.kept if not token.is_stop_word)
    return Markup('<div class="group"><h3>{} <span>{}</span></h3>{}{}</div>').format(
        _step_range(group),
        "" if is_first else _("adds"),
        Markup('<ul class="tokens">{}</ul>').format(words) if shown else html('<p class="kept">[[nothing new]]</p>'),
        html('<p class="kept" dir="auto">[[still:]] {}</p>').format(shorten(kept, 90)) if kept else "",
    )


def _step_range(group: RefinementGroup) -> str:
    if group.first_step == group.last_step:
        return _("Step {number}").format(number=group.first_step)
    return _("Steps {first}–{last}").format(first=group.first_step, last=group.last_step)


def _render_token(token: GroupToken, heaviest: float, bias: Mapping[str, float] | None, key: str) -> Markup:
    share = min(1.0, token.weight / heaviest) if heaviest > 0 else 0.0
    size = 1 if token.is_stop_word else 1 + round(share**0.5 * (TOKEN_SIZES - 1))
    return html('<li class="token size-{}{}{}" dir="auto" title="[[summed probability {}]]">{}</li>').format(
        size,
        " is-stop" if token.is_stop_word else "",
        " is-boosted" if bias and bias.get(token.token, 0) > 0 else "",
        number(token.weight, 3),
        shorten(token.token, 40) if bias is None else _render_menu(token.token, key),
    )


def _render_menu(word: str, key: str) -> Markup:
    """`key` is the id of the popover."""
    return html(
        '<button type="button" class="word" popovertarget="token-{key}">{shown}</button><span '
        'class="menu token-menu" id="token-{key}" popover><button type="button" class="plain-button" '
        'data-event="choose" data-action="boost" data-subject="{word}" aria-label="[[More '
        '{shown}]]">[[More]]</button> <button type="button" class="plain-button" data-event="choose" '
        'data-action="suppress" data-subject="{word}" aria-label="[[Less '
        '{shown}]]">[[Less]]</button></span>'
    ).format(shown=shorten(word, 40), word=clean(word), key=key)


def _render_steps(steps: Sequence[RefinementStep]) -> Markup:
    rows = [
        Markup('<tr><th scope="row">{}</th><td><ul>{}</ul></td></tr>').format(
            step.step,
            join(
                Markup('<li dir="auto">{} <span>{}</span></li>').format(
                    shorten(token.token, 40), number(token.probability, 3)
                )
                for token in step.tokens[:TOKENS_PER_STEP]
            ),
        )
        for step in steps
    ]
    return html(
        '<table class="steps"><thead><tr><th scope="col">[[Step]]</th><th scope="col">[[Most '
        "probable words]]</th></tr></thead><tbody>{}</tbody></table>"
    ).format(join(rows))
