"""Prompts, byte for byte. The text is never altered: newlines, leading spaces and braces stay as they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """`before + instruction + between + text`; without an instruction the prompt is the bare text.

    `special_tokens` says whether the tokenizer's own begin and end tokens surround the prompt, `end_token` whether the
    vocabulary's end-of-text token closes it. Around instruction and text always stand `opening` and `closing`; where
    `middle` is given, it and the whole come once more. `has_context`: between instruction and text stands the
    contextual token, whose embedding another encoder gives.
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


# `official` is what the authors' released adapters were trained with: no space after "Query:", no BOS, no EOS.
# `official+special` is the same between [CLS] and [SEP], as MiniLM was trained.
TEMPLATES = {
    template.name: template
    for template in (
        Template("official", "Instruct: ", "\nQuery:", special_tokens=False),
        Template("official+special", "Instruct: ", "\nQuery:", special_tokens=True),
        # Echo embeddings (Springer et al. 2024): of the second copy every position has seen the whole text.
        Template(
            "echo",
            "Instruct: ",
            "\nQuery:",
            special_tokens=True,
            opening="Rewrite the following paragraph:\n",
            middle="\nThe rewritten paragraph:\n",
        ),
        # PromptEOL (Jiang et al. 2023): the state that names the next word stands for the text.
        Template(
            "prompt_eol",
            "Instruct: ",
            "\nQuery:",
            special_tokens=True,
            opening='This sentence: "',
            closing='" means in one word: "',
        ),
        # LaSER's released Qwen3 models (Jin et al. 2026): their chat template, its reasoning left empty, and a space
        # after "Query:". What their code calls slots of EOS are places of soft tokens.
        Template(
            "laser",
            "Instruct: ",
            "\nQuery: ",
            special_tokens=False,
            opening="<|im_start|>user\n",
            closing="<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
        Template("official+end", "Instruct: ", "\nQuery:", special_tokens=True, end_token=True),
        # Causal2Vec (Lin et al. 2025, Eq 2): [instruction; C; text; EOS]; `context` is the same without EOS, after
        # which a decoder has nothing to say.
        Template("causal2vec", "Instruct: ", "\nQuery:", special_tokens=True, end_token=True, has_context=True),
        Template("context", "Instruct: ", "\nQuery:", special_tokens=True, has_context=True),
    )
}
