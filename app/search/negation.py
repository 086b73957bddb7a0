"""What a query says that it is not about: “jazz, not about New York” asks for jazz, and New York is negated.

English alone, and clear patterns alone: a phrase taken for negated that was not costs more than one that is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_READ_CHARACTERS = 300  # longer texts are messages, whose “not” is part of what they say
MAX_NEGATED_WORDS = 5
MAX_NEGATED = 4

# `a film that is not about war` negates war; `it is not about war` says something of it, as `why not about war` does.
_CLEAR = re.compile(
    r"(?P<lead>[\s,;:(–—-]*\b(?:(?:that|which|who)\s+(?:is|are|was|were)\s+|(?:that|which)['’]s\s+|but\s+|and\s+)?)"
    r"\bnot\s+(?:(?:about|regarding|concerning|mentioning|involving)|(?:related|relating)\s+to)\s+",
    re.IGNORECASE,
)
# What real questions mean by it is nearly always a condition, not a subject: docs/evaluation/negation.md
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
# A query that begins so asks how something is done; “without” then says under which condition.
_ASKS = re.compile(
    r"^(?:how|why|what|when|where|which|who|whose|can|could|do|does|did|is|are|was|were|will|would|should|may|might|must|am|"
    r"i|we|you|he|she|they|it|my|there|if|has|have|had)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Negation:
    """`text` is the query without what it negates; `phrases` stand in it as they were written. Where `is_clear` is not
    set, a person has to say that this is what they meant."""

    text: str
    phrases: tuple[str, ...] = ()
    is_clear: bool = True


def find_negation(query: str) -> Negation:
    """The query as it is, without phrases, where it negates nothing."""
    if len(query) > MAX_READ_CHARACTERS or _SENTENCE_END.search(query.strip()):
        return Negation(query)
    quoted = [match.span() for match in _QUOTED.finditer(query)]
    for pattern, is_clear in ((_CLEAR, True), (_UNCLEAR, False)):
        for match in pattern.finditer(query):
            if any(start <= match.start("lead") < end or start < match.end() < end for start, end in quoted):
                continue
            found = _read(query, match, is_clear)
            if found is not None:
                return found
    return Negation(query)


def _read(query: str, match: re.Match[str], is_clear: bool) -> Negation | None:
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
    """Where the phrases end that begin here, and what they are; none where they are too long to be a subject."""
    quoted = _QUOTED.match(query, start)
    if quoted:
        inner = quoted.group()[1:-1].strip()
        return quoted.end(), (inner,) if _WORD.search(inner) else ()
    stop = _END.search(query, start)
    end = stop.start() if stop else len(query)
    phrases = tuple(_phrases(query[start:end]))
    is_short = all(len(_WORD.findall(each)) <= MAX_NEGATED_WORDS for each in phrases)
    return end, phrases if is_short and len(phrases) <= MAX_NEGATED else ()


def _phrases(text: str) -> Iterator[str]:
    for part in _ALTERNATIVES.split(text):
        phrase = _ARTICLE.sub("", part.strip(" -'’"))
        if _WORD.search(phrase):
            yield phrase


def _is_no_subject(phrase: str) -> bool:
    """“without losing data” says how, and “not about me” is said of a person."""
    words = phrase.split()
    return bool(_NO_SUBJECT.match(phrase)) or (len(words) > 1 and words[0].lower().endswith("ing"))
