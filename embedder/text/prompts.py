"""Converts texts and an instruction to token ids. Never alters the text: newlines, leading spaces and braces stay."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from embedder.errors import ContractError, ModelNotFoundError, TextError
from embedder.refinement_steps import MAX_INSTRUCTION_CHARACTERS
from embedder.text.sentences import spans_to_read


@dataclass(frozen=True, slots=True)
class Template:
    """The prompt format: `before + instruction + between + text`; without an instruction, the bare text.

    - `special_tokens`: the tokenizer's own begin and end tokens surround the prompt.
    - `end_token`: the vocabulary's end-of-text token closes the prompt.
    - `opening`, `closing`: always surround instruction and text.
    - `middle`: if set, it follows the text, and then instruction and text are repeated.
    - `has_context`: a contextual token stands between instruction and text; another encoder computes its embedding.
    """

    name: str
    before: str
    between: str
    special_tokens: bool
    opening: str = ""
    middle: str | None = None
    closing: str = ""
    end_token: bool = False
    has_context: bool = False

    def prefix(self, instruction: str) -> str:
        return f"{self.before}{instruction}{self.between}" if instruction else ""

    def render(self, instruction: str, text: str) -> str:
        return self.prefix(instruction) + text


# `official` is the format of the authors' released adapters: no space after "Query:", no BOS, no EOS.
# `official+special` is the same between [CLS] and [SEP], for MiniLM.
TEMPLATES = {
    template.name: template
    for template in (
        Template("official", "Instruct: ", "\nQuery:", special_tokens=False),
        Template("official+special", "Instruct: ", "\nQuery:", special_tokens=True),
        # Echo embeddings (Springer et al. 2024): each position of the second copy has seen the whole text.
        Template(
            "echo",
            "Instruct: ",
            "\nQuery:",
            special_tokens=True,
            opening="Rewrite the following paragraph:\n",
            middle="\nThe rewritten paragraph:\n",
        ),
        # PromptEOL (Jiang et al. 2023): the state that predicts the next word represents the text.
        Template(
            "prompt_eol",
            "Instruct: ",
            "\nQuery:",
            special_tokens=True,
            opening='This sentence: "',
            closing='" means in one word: "',
        ),
        # LaSER's released Qwen3 models (Jin et al. 2026): their chat template with empty reasoning, and a space after
        # "Query:". The EOS slots of their code are the positions of soft tokens.
        Template(
            "laser",
            "Instruct: ",
            "\nQuery: ",
            special_tokens=False,
            opening="<|im_start|>user\n",
            closing="<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
        Template("official+end", "Instruct: ", "\nQuery:", special_tokens=True, end_token=True),
        # Causal2Vec (Lin et al. 2025, Eq 2): [instruction; C; text; EOS]. `context` omits EOS, because a decoder has
        # nothing to generate after it.
        Template("causal2vec", "Instruct: ", "\nQuery:", special_tokens=True, end_token=True, has_context=True),
        Template("context", "Instruct: ", "\nQuery:", special_tokens=True, has_context=True),
    )
}


logger = logging.getLogger(__name__)


@contextmanager
def without_cut_warnings() -> Iterator[None]:
    """Suppresses warnings about truncated texts, for callers that truncate on purpose."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


CONTEXT_SLOT = -1  # placeholder id of the contextual token; its embedding is not a row of E
INSTRUCTION_END = -2  # if the contract needs it, the instruction's own ids come first, then this marker
SENTENCE_START = -3  # marks the first id of each sentence, if the contract selects sentences
# Names of the end-of-text token by family; the first one in the vocabulary is used.
TOKENIZER_FILE = "tokenizer.json"
_END_TOKENS = ("<eos>", "</s>", "<|endoftext|>", "<|end_of_text|>", "[SEP]")


@dataclass(frozen=True, slots=True)
class PromptIds:
    """Token ids of one prompt; `length` is their number before truncation.

    apart: number of ids that are not part of the prompt itself: the instruction alone, `INSTRUCTION_END`,
    `SENTENCE_START`.
    """

    ids: tuple[int, ...]
    length: int
    apart: int = 0

    @property
    def tokens(self) -> int:
        """Number of tokens of the prompt itself."""
        return len(self.ids) - self.apart

    @property
    def is_cut(self) -> bool:
        return self.length > self.tokens


@dataclass(frozen=True, slots=True)
class Frame:
    """The ids around instruction and text. With `middle`, instruction and text appear twice."""

    begin: tuple[int, ...]
    middle: tuple[int, ...] | None
    end: tuple[int, ...]

    def around(self, ids: Sequence[int], *, max_length: int) -> PromptIds:
        """Adds the frame to `ids`; truncates both copies of the text alike."""
        fixed = len(self.begin) + len(self.middle or ()) + len(self.end)
        copies = 1 if self.middle is None else 2
        cut = ids[: max(0, max_length - fixed) // copies]
        again = () if self.middle is None else (*self.middle, *cut)
        return PromptIds((*self.begin, *cut, *again, *self.end) if cut else (), fixed + copies * len(ids))

    def alone(self) -> PromptIds:
        """The frame around no text."""
        ids = (*self.begin, *(self.middle or ()), *self.end)
        return PromptIds(ids, len(ids))

    def second_copy(self, length: int) -> range:
        """Positions of the second copy in a prompt of `length` ids; of the only copy without `middle`."""
        fixed = len(self.begin) + len(self.middle or ()) + len(self.end)
        count = (length - fixed) // (1 if self.middle is None else 2)
        return range(length - len(self.end) - count, length - len(self.end))


class PromptTokenizer:
    """Converts text and instruction to ids. Thread-safe: never changes the tokenizer's truncation and padding."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: Template,
        *,
        max_length: int,
        max_instruction: int | None = None,
        report_cuts: bool = True,
        instruction_apart: bool = False,
        instruction_in_prompt: bool = True,
        marks_sentences: bool = False,
    ) -> None:
        """instruction_apart: prefix each prompt with its instruction's own ids and `INSTRUCTION_END`.
        instruction_in_prompt: whether the prompt also contains the instruction. marks_sentences: with
        instruction_apart, put `SENTENCE_START` before each sentence."""
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._template = template
        self.max_length = max_length
        self._report_cuts = report_cuts  # training cuts on purpose
        self._instruction_apart = instruction_apart
        self._instruction_in_prompt = instruction_in_prompt
        self._marks_sentences = marks_sentences
        # Most tokens of instruction and template: half, unless training with short prompts needs more.
        self._max_instruction = max_length // 2 if max_instruction is None else max_instruction
        self.frame = frame_of(tokenizer, template)

    @property
    def vocabulary(self) -> Tokenizer:
        return self._tokenizer

    def encode(
        self, texts: Sequence[str], instruction: str, *, logs_cuts: bool = True, allow_empty: bool = False
    ) -> list[PromptIds]:
        """Encodes texts under one instruction. logs_cuts: log how many texts were cut. allow_empty: an empty text
        gives the prompt of a space, or of the template alone if a space has no token.

        Raises TextError for an invalid text (with its index) or an instruction that leaves too little room for texts.
        """
        for index, text in enumerate(texts):
            if allow_empty and is_empty(text):
                continue
            check_text(text, f"Text {index}")
        if allow_empty:
            texts = [" " if is_empty(text) else text for text in texts]
        self.check_instruction(instruction)
        rendered = instruction if self._instruction_in_prompt else ""
        marked = self._tokenised(texts, rendered) if instruction and self._marks_sentences else None
        inner = self._inner_ids(texts, rendered) if marked is None else [each.ids for each in marked]
        encoded = [self.frame.around(ids, max_length=self.max_length) for ids in inner]
        if allow_empty:
            encoded = [
                each if each.ids or text != " " else self.frame.alone()
                for each, text in zip(encoded, texts, strict=True)
            ]
        for index, each in enumerate(encoded):
            if not each.ids:
                raise TextError(
                    f"Text {index} ({texts[index][:40]!r}) has no token in the model's vocabulary. Leave it out."
                )
        cut = [each.length for each in encoded if each.length > self.max_length]
        if self._report_cuts and logs_cuts and cut:
            logger.warning(
                "%d of %d texts were cut to %d tokens (the longest has %d); split them to embed all of them.",
                len(cut), len(texts), self.max_length, max(cut),
            )  # fmt: skip
        if not (instruction and self._instruction_apart):
            return encoded
        (own,) = self._inner_ids([instruction], "")
        before = (*self.frame.around(own, max_length=self.max_length).ids, INSTRUCTION_END)
        if marked is None:
            return [PromptIds((*before, *each.ids), each.length, apart=len(before)) for each in encoded]
        found = (self._sentences(*each, rendered) for each in zip(texts, marked, strict=True))
        return [self._with_marks(before, *each) for each in zip(encoded, found, strict=True)]

    def _with_marks(self, before: tuple[int, ...], prompt: PromptIds, starts: Iterable[int]) -> PromptIds:
        """Inserts sentence marks. starts: positions of sentences in the ids of instruction and text; sentences that
        were cut get no mark."""
        first, last = len(self.frame.begin), len(prompt.ids) - len(self.frame.end)
        ids = list(prompt.ids)
        kept = [first + each for each in starts if first + each < last]
        for at in reversed(kept):
            ids.insert(at, SENTENCE_START)
        return PromptIds((*before, *ids), prompt.length, apart=len(before) + len(kept))

    def marked_sentences(self, text: str, instruction: str) -> list[tuple[int, int]]:
        """Character range [start, end) of each marked sentence, including those cut from the prompt."""
        (tokens,) = self._tokenised([text], instruction)
        return list(self._sentences(text, tokens, instruction).values())

    def _sentences(self, text: str, tokens: Encoding, instruction: str) -> dict[int, tuple[int, int]]:
        """Maps a sentence's position in the ids of instruction and text to its character range. A sentence without a
        token of its own joins the next one, or the last."""
        prefix = len(self._template.prefix(instruction))
        ends = [end for _, end in tokens.offsets]  # ascending: a sentence starts at the first token that ends inside it
        found: dict[int, tuple[int, int]] = {}
        for start, end in spans_to_read(text):
            at = bisect_right(ends, prefix + start)
            at = at if at < len(ends) else max(found, default=len(ends))
            if at < len(ends):
                found[at] = (found[at][0] if at in found else start, end)
        return found

    def _tokenised(self, texts: Sequence[str], instruction: str) -> list[Encoding]:
        """Tokenises instruction and text together; for templates without a contextual token."""
        prefix = self._template.prefix(instruction)
        return list(self._tokenizer.encode_batch([prefix + text for text in texts], add_special_tokens=False))

    def _inner_ids(self, texts: Sequence[str], instruction: str) -> list[Sequence[int]]:
        """Ids of instruction and text; empty if the text has no tokens."""
        if not self._template.has_context:
            return [each.ids for each in self._tokenised(texts, instruction)]
        prefix = self._tokenizer.encode(self._template.prefix(instruction), add_special_tokens=False).ids
        own = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [(*prefix, CONTEXT_SLOT, *each.ids) if each.ids else () for each in own]

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range [start, end) of every token of the bare text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def check_instruction(self, instruction: str) -> None:
        """Raises TextError if the instruction leaves too little room for a text."""
        if not instruction:
            return
        if len(instruction) > MAX_INSTRUCTION_CHARACTERS:  # tokenising millions would take a minute and gigabytes
            raise TextError(
                f"The instruction has {len(instruction):,} characters; the limit is {MAX_INSTRUCTION_CHARACTERS:,}. "
                "Shorten it."
            )
        check_surrogates(instruction, "The instruction")
        prefix = self._template.prefix(instruction)
        count = len(self._tokenizer.encode(prefix, add_special_tokens=False).ids)
        if count > self._max_instruction:
            raise TextError(
                f"The instruction and its template have {count} tokens; the limit is "
                f"{self._max_instruction} of the model's {self.max_length}. Shorten it."
            )


def split_instructions(prompts: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Splits each prompt into the ids of its separate instruction (empty if none) and those of the prompt itself."""
    ends = [ids.index(INSTRUCTION_END) if INSTRUCTION_END in ids else -1 for ids in prompts]
    own = [tuple(ids[: max(end, 0)]) for ids, end in zip(prompts, ends, strict=True)]
    return own, [tuple(ids[end + 1 :]) for ids, end in zip(prompts, ends, strict=True)]


def split_sentences(ids: Sequence[int]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Splits a prompt into the ids before the first marked sentence, and the ids of each sentence. The last sentence
    includes the end of the prompt."""
    starts = [at for at, each in enumerate(ids) if each == SENTENCE_START]
    bounds = [*starts, len(ids)]
    return tuple(ids[: bounds[0]]), [tuple(ids[start + 1 : end]) for start, end in pairwise(bounds)]


def is_empty(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def check_text(text: str, name: str) -> None:
    """Raises TextError unless `text` is a non-empty, valid Unicode string."""
    if not isinstance(text, str):
        raise TextError(
            f"{name} is of type {type(text).__name__}, not a string. Token ids of other models are not accepted."
        )
    if not text.strip():
        raise TextError(f"{name} is empty. Leave it out.")
    check_surrogates(text, name)


def check_surrogates(text: str, name: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextError(
            f"{name} holds a lone surrogate ({text[error.start]!r} at character {error.start}), which is invalid "
            'Unicode. Read the source with errors="replace".'
        ) from None


def load_tokenizer(folder: Path) -> Tokenizer:
    """Loads the fast tokenizer of a model folder."""
    file = folder / TOKENIZER_FILE
    if file.is_file():
        return Tokenizer.from_file(str(file))
    try:
        slow = import_module("embedder.model.pretrained").AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        tokenizer: Tokenizer = slow.backend_tokenizer
    except (OSError, ValueError, AttributeError) as error:
        raise ModelNotFoundError(f"{folder} has no usable tokenizer ({error}). It needs a tokenizer.json.") from error
    return tokenizer


def frame_of(tokenizer: Tokenizer, template: Template) -> Frame:
    """The frame of ids for a template. Raises ContractError if the vocabulary lacks the end-of-text token it needs."""
    begin, end = _surrounding_ids(tokenizer) if template.special_tokens else ((), ())
    if template.end_token:
        end = (_end_of_text(tokenizer),)
    opening, closing, middle = (
        tuple(tokenizer.encode(part, add_special_tokens=False).ids) if part else ()
        for part in (template.opening, template.closing, template.middle)
    )
    return Frame((*begin, *opening), None if template.middle is None else middle, (*closing, *end))


def _end_of_text(tokenizer: Tokenizer) -> int:
    known = (tokenizer.token_to_id(name) for name in _END_TOKENS)
    found = next((each for each in known if each is not None), None)
    if found is None:
        raise ContractError(f"The vocabulary has none of {', '.join(_END_TOKENS)}, and the template ends with one.")
    return found


def _surrounding_ids(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special ids that the tokenizer adds before and after a text; [CLS] and [SEP] for BERT."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    at = next(i for i in range(len(full) - len(bare) + 1) if full[i : i + len(bare)] == bare)
    return tuple(full[:at]), tuple(full[at + len(bare) :])
