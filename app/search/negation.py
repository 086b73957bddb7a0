"""Finds negated phrases in a query: “jazz, not about New York” searches for jazz and negates New York.

English only, and only clear patterns: a false alarm harms a search more than a missed negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_READ_CHARACTERS = 300  # longer queries are messages: their “not” is content
MAX_NEGATED_WORDS = 5
MAX_NEGATED = 4

# `a film that is not about war` negates war; `it is not about war` and `why not about war` are statements about it.
_CLEAR = re.compile(
    r"(?P<lead>[\s,;:(–—-]*\b(?:(?:that|which|who)\s+(?:is|are|was|were)\s+|(?:that|which)['’]s\s+|but\s+|and\s+)?)"
    r"\bnot\s+(?:(?:about|regarding|concerning|mentioning|involving)|(?:related|relating)\s+to)\s+",
    re.IGNORECASE,
)
# In real questions these words nearly always state a condition, not a subject: docs/evaluation/negation.md
_UNCLEAR = re.compile(r"(?P<lead>[\s,;(]+(?:but\s+)?)\b(?:without|except(?:\s+for)?|excluding)\s+")
_SAID_BEFORE = re.compile(
    r"(?:\b(?:am|is|are|was|were|be|been|being|do|does|did|i|it|its|this|that|these|those|he|she|they|we|you|or|no|yes|if|why|"
    r"whether|and|care[sd]?|although|though|just|generally|only|really|especially|certainly|maybe|perhaps|so|because)"
    r"|['’](?:s|m|re)|n['’]t)$",
    re.IGNORECASE,
)
_END = re.compile(
    r"[,;:.?!()\n–—\"“”«»]|\s-\s|\b(?:but|that|which|who|whose|because|since|although|though|when|while|if|unless|so|please|"
    r"in order|instead|rather)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|„[^“”]*[“”]|(?<!\w)'[^']+'(?!\w)|‘[^’]*’(?!\w)")
_ALTERNATIVES = re.compile(r"\s+(?:or|nor)\s+|\s*,\s*", re.IGNORECASE)
_NO_SUBJECT = re.compile(
    r"^(?:to|me|you|him|her|it|them|us|this|that|these|those|what|whether|how|why|who|i|we|they|he|she)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?…]\s|\n")
_ARTICLE = re.compile(r"^(?:the|a|an|any|all)\s+", re.IGNORECASE)
_WORD = re.compile(r"\w+")
# Questions and statements, which begin like this; “without” then states a condition.
_ASKS = re.compile(
    r"^(?:how|why|what|when|where|which|who|whose|can|could|do|does|did|is|are|was|were|will|would|should|may|might|must|am|"
    r"i|we|you|he|she|they|it|my|there|if|has|have|had)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Negation:
    """A query, divided into its positive and its negated part. `text` is the query without the negated phrases;
    `phrases` are spelled as in the query. If not `is_clear`, the user has to confirm the negation."""

    text: str
    phrases: tuple[str, ...] = ()
    is_clear: bool = True


def find_negation(query: str) -> Negation:
    """Returns the first negation in the query; without one, the unchanged query and no phrases."""
    if len(query) > MAX_READ_CHARACTERS or _SENTENCE_END.search(query.strip()):
        return Negation(query)
    quoted = [match.span() for match in _QUOTED.finditer(query)]
    for pattern, is_clear in ((_CLEAR, True), (_UNCLEAR, False)):
        for match in pattern.finditer(query):
            if any(start <= match.start("lead") < end or start < match.end() < end for start, end in quoted):
                continue
            negation = _parse_match(query, match, is_clear)
            if negation is not None:
                return negation
    return Negation(query)


def _parse_match(query: str, match: re.Match[str], is_clear: bool) -> Negation | None:
    """None if the words around the match show that no subject is negated."""
    before = query[: match.start()].rstrip(" ,;:(–—-")
    if not _WORD.search(before) or _SAID_BEFORE.search(before):
        return None
    if not is_clear and (_ASKS.match(query.lstrip()) or query.rstrip().endswith("?")):
        return None
    end, phrases = _negated(query, match.end())
    after = query[end:].lstrip(" )")
    if not phrases or any(map(_is_no_subject, phrases)) or (not is_clear and _WORD.search(after)):
        return None
    after = after.removeprefix("but ")
    text = before + (after if after[:1] in ".,;:?!" else f" {after}" if after else "")
    return Negation(text.strip(" ,;:"), phrases, is_clear)


def _negated(query: str, start: int) -> tuple[int, tuple[str, ...]]:
    """Reads the phrases that begin at `start`. Returns their end, and the phrases; no phrase if they are too long or
    too many to be subjects."""
    quoted = _QUOTED.match(query, start)
    if quoted:
        inner = quoted.group()[1:-1].strip()
        return quoted.end(), (inner,) if _WORD.search(inner) else ()
    stop = _END.search(query, start)
    end = stop.start() if stop else len(query)
    phrases = tuple(_phrases(query[start:end]))
    is_short = all(len(_WORD.findall(phrase)) <= MAX_NEGATED_WORDS for phrase in phrases)
    return end, phrases if is_short and len(phrases) <= MAX_NEGATED else ()


def _phrases(text: str) -> Iterator[str]:
    for part in _ALTERNATIVES.split(text):
        phrase = _ARTICLE.sub("", part.strip(" -'’"))
        if _WORD.search(phrase):
            yield phrase


def _is_no_subject(phrase: str) -> bool:
    """True for phrases that negate no subject: “without losing data” states a manner, “not about me” a person."""
    words = phrase.split()
    return bool(_NO_SUBJECT.match(phrase)) or (len(words) > 1 and words[0].lower().endswith("ing"))
