"""Reads refinement tokens as the paper does (section 5.2): probabilities summed per word within steps 1-5, 6-10, 11-20.

A later group shows what it adds to the earlier ones. Pure; knows nothing of how the groups are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from embedder.refinement_steps import RefinementStep

GROUP_STARTS = (1, 6, 11, 21)
# 1 - cosine. So near, 9 of the first 10 hits at least are those of the last step (docs/evaluation/faithfulness.md).
CONVERGENCE_TOLERANCE = 0.001

STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "above",
        "after",
        "again",
        "against",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "aren't",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "but",
        "by",
        "can",
        "can't",
        "cannot",
        "could",
        "couldn't",
        "did",
        "didn't",
        "do",
        "does",
        "doesn't",
        "doing",
        "don't",
        "down",
        "during",
        "each",
        "either",
        "else",
        "etc",
        "ever",
        "every",
        "few",
        "for",
        "from",
        "further",
        "get",
        "gets",
        "getting",
        "go",
        "goes",
        "going",
        "got",
        "had",
        "hadn't",
        "has",
        "hasn't",
        "have",
        "haven't",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "herself",
        "him",
        "himself",
        "his",
        "how",
        "however",
        "i",
        "i'd",
        "i'll",
        "i'm",
        "i've",
        "if",
        "in",
        "into",
        "is",
        "isn't",
        "it",
        "it's",
        "its",
        "itself",
        "just",
        "let",
        "let's",
        "like",
        "made",
        "make",
        "makes",
        "many",
        "may",
        "me",
        "might",
        "mine",
        "more",
        "most",
        "much",
        "must",
        "my",
        "myself",
        "neither",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "on",
        "once",
        "one",
        "only",
        "onto",
        "or",
        "other",
        "ought",
        "our",
        "ours",
        "ourselves",
        "out",
        "over",
        "own",
        "per",
        "quite",
        "rather",
        "really",
        "said",
        "same",
        "say",
        "says",
        "shall",
        "she",
        "should",
        "shouldn't",
        "since",
        "so",
        "some",
        "such",
        "than",
        "that",
        "that's",
        "the",
        "their",
        "theirs",
        "them",
        "themselves",
        "then",
        "there",
        "there's",
        "these",
        "they",
        "they'd",
        "they'll",
        "they're",
        "they've",
        "this",
        "those",
        "though",
        "through",
        "to",
        "too",
        "toward",
        "towards",
        "under",
        "until",
        "up",
        "upon",
        "us",
        "very",
        "was",
        "wasn't",
        "we",
        "we'd",
        "we'll",
        "we're",
        "we've",
        "were",
        "weren't",
        "what",
        "what's",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "who's",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "without",
        "won't",
        "would",
        "wouldn't",
        "yet",
        "you",
        "you'd",
        "you'll",
        "you're",
        "you've",
        "your",
        "yours",
        "yourself",
        "yourselves",
        "s",
        "t",
        "d",
        "ll",
        "m",
        "re",
        "ve",
    ]
)


@dataclass(frozen=True, slots=True)
class GroupToken:
    """`weight` is the probability summed over the group's steps; `is_new` when no earlier group holds the token."""

    token: str
    weight: float
    is_stop_word: bool
    is_new: bool


@dataclass(frozen=True, slots=True)
class RefinementGroup:
    """Steps [first_step, last_step] that were really made; tokens by falling weight, ties by alphabet."""

    first_step: int
    last_step: int
    tokens: tuple[GroupToken, ...]

    @property
    def added(self) -> tuple[GroupToken, ...]:
        return tuple(token for token in self.tokens if token.is_new)

    @property
    def kept(self) -> tuple[GroupToken, ...]:
        return tuple(token for token in self.tokens if not token.is_new)


def is_stop_word(token: str) -> bool:
    """True for English function words, and for pieces without a letter or digit: neither says what a text is about."""
    return token in STOP_WORDS or not any(character.isalnum() for character in token)


def converged_step(steps: Sequence[RefinementStep], tolerance: float = CONVERGENCE_TOLERANCE) -> int | None:
    """The first step from which on the vector stays within `tolerance` of the final one; None without steps.

    A vector may come near and leave again: what counts is the last stretch.
    """
    converged = None
    for step in sorted(steps, key=lambda each: -each.step):
        if step.remaining > tolerance:
            break
        converged = step.step
    return converged


def group_refinement(steps: Sequence[RefinementStep]) -> tuple[RefinementGroup, ...]:
    """Groups of the steps that exist: 3 steps give one group 1-3, and steps beyond 20 a last group of their own."""
    groups: list[RefinementGroup] = []
    seen: set[str] = set()
    for members in _split_at_starts(steps):
        weights: defaultdict[str, float] = defaultdict(float)
        for step in members:
            for token in step.tokens:
                word = token.token.strip().lower()
                if word:
                    weights[word] += token.probability
        ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
        tokens = tuple(GroupToken(word, weight, is_stop_word(word), word not in seen) for word, weight in ranked)
        groups.append(RefinementGroup(members[0].step, members[-1].step, tokens))
        seen.update(weights)
    return tuple(groups)


def _split_at_starts(steps: Sequence[RefinementStep]) -> list[list[RefinementStep]]:
    groups: dict[int, list[RefinementStep]] = {}
    for step in sorted(steps, key=lambda each: each.step):
        start = max((each for each in GROUP_STARTS if each <= step.step), default=GROUP_STARTS[0])
        groups.setdefault(start, []).append(step)
    return list(groups.values())
