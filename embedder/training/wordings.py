"""The wording of instructions in training: as in the data, hand-written, or by a pattern."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

# share of hand-written wordings among the varied ones, if there are some; the others use a pattern
_WRITTEN_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Wordings:
    """The wordings by task and aspect.

    patterns contain `{word}`; words: aspect -> its names; pairs and aspects: task (-> aspect) -> wordings.
    retrieval_patterns contain `{subject}`.
    """

    patterns: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    similarity: tuple[str, ...]
    pairs: Mapping[str, tuple[str, ...]]
    aspects: Mapping[str, Mapping[str, tuple[str, ...]]]
    retrieval_patterns: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()

    def of_aspect(self, rng: random.Random, task: str, aspect: str, instruction: str, *, share: float) -> str:
        """The instruction, or with probability `share` another wording."""
        if rng.random() >= share:
            return instruction
        written = self.aspects.get(task, {}).get(aspect, ())
        words = self.words.get(aspect, ())
        if written and (not words or rng.random() < _WRITTEN_SHARE):
            return rng.choice(written)
        return rng.choice(self.patterns).format(word=rng.choice(words)) if words else instruction

    def of_pairs(self, rng: random.Random, task: str, instruction: str, *, share: float) -> str:
        written = self.pairs.get(task, ())
        return rng.choice(written) if written and rng.random() < share else instruction

    def of_similarity(self, rng: random.Random) -> str:
        return rng.choice(self.similarity)


@lru_cache(maxsize=1)
def shipped_wordings() -> Wordings:
    known = json.loads((files("embedder.training") / "wordings.json").read_text(encoding="utf-8"))
    known.pop("about")
    return Wordings(**known)
