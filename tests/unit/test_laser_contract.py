"""The contract of LaSER's released models, against their way of encoding written anew: chat template, K states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import contract, family_backbone, save_tiny_model, tiny_tokenizer
from tokenizers import Tokenizer
from torch.nn.functional import normalize

from embedder.encoder import Encoder
from embedder.model.backbone import Backbone, split_model, with_decoder

MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]
TEXTS = ["which rivers reach the sea", "a longer question, about {braces}\nand lines"]


def chat_tokenizer() -> Tokenizer:
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens(MARKS)
    return tokenizer


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    folder = save_tiny_model(tmp_path_factory.mktemp("tiny"), "qwen3")
    backbone = family_backbone(folder)
    backbone.model.resize_token_embeddings(1024 + len(MARKS), mean_resizing=False)
    assert chat_tokenizer().get_vocab_size() <= 1024 + len(MARKS)
    return split_model(backbone.model.eval(), attention="causal")


@torch.no_grad()
def as_released(decoder: Backbone, text: str, instruction: str, *, thinking_steps: int) -> torch.Tensor:
    """The whole prompt as one string, every step over the whole sequence again, K states from the prompt's last on."""
    asked = f"Instruct: {instruction}\nQuery: {text}" if instruction else text
    chat = f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    table = decoder.model.get_input_embeddings().weight
    inputs = table[chat_tokenizer().encode(chat, add_special_tokens=False).ids]
    states = []
    for _ in range(thinking_steps):
        found = decoder.model(inputs_embeds=inputs[None], output_hidden_states=True, use_cache=False)
        states.append(found.hidden_states[-1][0, -1])
        soft_token = torch.softmax(found.logits[0, -1], dim=-1) @ table
        inputs = torch.cat([inputs, soft_token[None]])
    return normalize(torch.stack(states).mean(dim=0), dim=0)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("instruction", ["", "Find what answers."])
@pytest.mark.parametrize("thinking_steps", [2, 3, 5])
def test_vectors_are_those_of_the_released_code(
    decoder: Backbone, thinking_steps: int, instruction: str, is_packed: bool
) -> None:
    told = contract(template="laser", pooling="mean_with_prompt_last")
    encoder = Encoder(with_decoder(decoder) if is_packed else decoder, chat_tokenizer(), told)
    found = encoder.encode_queries(TEXTS, instruction=instruction, steps=thinking_steps - 1)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = as_released(decoder, text, instruction, thinking_steps=thinking_steps)
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5, rtol=0)


def test_every_prefix_is_the_vector_of_so_many_steps(decoder: Backbone) -> None:
    told = contract(template="laser", pooling="mean_with_prompt_last")
    encoder = Encoder(with_decoder(decoder), chat_tokenizer(), told)
    prefixes = encoder.encode_prefixes(TEXTS, instruction="", steps=3)
    for steps in (1, 2, 3):
        expected = encoder.encode_queries(TEXTS, instruction="", steps=steps)
        np.testing.assert_allclose(prefixes[:, steps - 1], expected, atol=1e-5, rtol=0)
