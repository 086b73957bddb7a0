"""Two-stage generation (GIRCSE, appendix G): a language model generates an augmentation, which is embedded with the
text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tokenizers import Tokenizer

from embedder.lru import LRUCache
from embedder.text.prompts import PromptTokenizer, Template

MAX_TOKENS = 256  # per augmentation
_MOST = 4096  # cached augmentations, for other step counts of the same texts

Ids = tuple[int, ...]


def expansion_prompt(instruction: str, text: str) -> str:
    """Table 7 of the paper, word for word.

    The paper's braces are placeholders, {256} for the budget as well as {instruction} and {text}; so the model sees
    "within 256 tokens". Without an instruction its line stays, empty.
    """
    return (
        "Given the INSTRUCTION and the TEXT, produce a helpful augmentation that, when concatenated to the original "
        "TEXT and embedded, is likely to improve embedding quality for the instruction’s task. Do not explain yourself "
        "or output anything other than the augmentation. Your answer must be written within "
        f"{MAX_TOKENS} tokens.\nINSTRUCTION: {instruction}\nTEXT: {text}"
    )


def expanded(text: str, augmentation: str) -> str:
    return f"{text}\n{augmentation}" if augmentation else text


class TextGenerator(Protocol):
    """A local language model that continues prompts greedily, by `MAX_TOKENS` tokens at most."""

    batch_size: int

    def generate(self, prompts: Sequence[str], *, between_tokens: Callable[[], None] | None = None) -> list[str]:
        """Continues the prompts. between_tokens: called after each token; it may generate for other prompts."""


class Expander:
    """Adds augmentations to the texts of prompts, given and returned as ids. Thread-safe.

    The text is decoded from the ids, so a truncated text is augmented as truncated.
    """

    def __init__(self, generator: TextGenerator, vocabulary: Tokenizer, template: Template, *, max_length: int) -> None:
        """vocabulary, template, max_length: those of the embedding model."""
        self._generator = generator
        self._template = template
        # No warning about cuts: it is the augmentation of a long text that is cut, and users cannot split that.
        self._prompts = PromptTokenizer(vocabulary, template, max_length=max_length, report_cuts=False)
        self._known: LRUCache[tuple[Ids, Ids], Ids] = LRUCache(_MOST)

    def expand(
        self,
        instructions: Sequence[Ids],
        prompts: Sequence[Ids],
        *,
        between_tokens: Callable[[], None] | None = None,
    ) -> list[Ids]:
        """Adds an augmentation to the text of each prompt; returns the ids of the new prompts.

        instructions: the ids of each prompt's instruction as a separate text; empty if it has none.
        """
        keys = list(zip(instructions, prompts, strict=True))
        ids_of = {key: ids for key in keys if (ids := self._known.get(key)) is not None}
        # Prompts of similar length need little padding.
        missing = sorted((key for key in dict.fromkeys(keys) if key not in ids_of), key=lambda key: sum(map(len, key)))
        for start in range(0, len(missing), self._generator.batch_size):
            batch = missing[start : start + self._generator.batch_size]
            pairs = [self._instruction_and_text(*key) for key in batch]
            written = self._generator.generate(
                [expansion_prompt(*each) for each in pairs], between_tokens=between_tokens
            )
            for key, (instruction, text), augmentation in zip(batch, pairs, written, strict=True):
                longer = self._prompts.encode([expanded(text, augmentation)], instruction) if augmentation else None
                ids_of[key] = key[1] if longer is None else longer[0].ids
                self._known.keep({key: ids_of[key]})
        return [ids_of[key] for key in keys]

    def _instruction_and_text(self, instruction: Ids, prompt: Ids) -> tuple[str, str]:
        """Decodes instruction and text."""
        instruction_text = self._decode_text(instruction) if instruction else ""
        prefix = self._template.prefix(instruction_text)
        respelled = self._decode(self._prompts.vocabulary.encode(prefix, add_special_tokens=False).ids)
        text = self._decode_text(prompt).removeprefix(respelled)
        # BERT's vocabulary decodes to lower case, with one space between words.
        return instruction_text, text if respelled == prefix else text.strip()

    def _decode_text(self, prompt: Ids) -> str:
        own = [prompt[at] for at in self._prompts.frame.second_copy(len(prompt))]
        return self._decode([each for each in own if each >= 0])

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._prompts.vocabulary.decode(list(ids), skip_special_tokens=False)
        return text
