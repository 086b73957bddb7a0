"""Groups soft tokens like the paper (section 5.2): sums probabilities per word over steps 1-5, 6-10 and 11-20.

A later group marks the words that no earlier group has. Pure functions; they know nothing of the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from embedder.refinement_steps import RefinementStep

GROUP_STARTS = (1, 6, 11, 21)
# In 1 - cosine. Within it, at least 9 of the first 10 hits equal those of the last step
# (docs/evaluation/faithfulness.md).
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
    """A word of a group of refinement steps. `weight`: probability summed over the group's steps. `is_new`: no earlier
    group has the token."""

    token: str
    weight: float
    is_stop_word: bool
    is_new: bool


@dataclass(frozen=True, slots=True)
class RefinementGroup:
    """Steps first_step to last_step, inclusive, as far as they were computed. Tokens by descending weight, then by
    alphabet."""

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
    """True for tokens without content: English function words, and tokens without a letter or digit."""
    return token in STOP_WORDS or not any(character.isalnum() for character in token)


def converged_step(steps: Sequence[RefinementStep], tolerance: float = CONVERGENCE_TOLERANCE) -> int | None:
    """The first step from which the vector stays within `tolerance` of the final one; None without steps.

    A vector may come near and move away again; such earlier steps do not count.
    """
    converged = None
    for step in sorted(steps, key=lambda step: -step.step):
        if step.remaining > tolerance:
            break
        converged = step.step
    return converged


def group_refinement(steps: Sequence[RefinementStep]) -> tuple[RefinementGroup, ...]:
    """Groups the computed steps: three steps give one group 1-3; steps beyond 20 form a last group."""
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
    for step in sorted(steps, key=lambda step: step.step):
        start = max((first for first in GROUP_STARTS if first <= step.step), default=GROUP_STARTS[0])
        groups.setdefault(start, []).append(step)
    return list(groups.values())
