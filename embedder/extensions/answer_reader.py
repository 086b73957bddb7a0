"""Reads a question and a sentence together and scores how well the sentence answers it: a small cross-encoder.

A LoRA adapter over an encoder's base and a linear layer over the mean of its states. `embedder.training.answer_reader`
trains it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn

from embedder.errors import ContractError
from embedder.model.adapter import merge_adapter
from embedder.model.backbone import locate_model
from embedder.model.bert import load_bert
from embedder.model.contract import verify_files
from embedder.model.decoder import Decoder
from embedder.model.gguf_source import verify_weights
from embedder.model.layouts import read_layout
from embedder.model.module_files import read_weights
from embedder.model.prefill import BATCH_TOKENS, plan_batches
from embedder.text.prompts import load_tokenizer

SHIPPED_READER = Path(__file__).parents[1] / "models" / "answer-reader"
CONTRACT_FILE, HEAD_FILE = "reader.json", "head.safetensors"


@dataclass(frozen=True, slots=True)
class ReaderContract:
    """Everything needed to use a reader as it was trained."""

    name: str
    base: str  # "package:<PyPI name>", a folder, or a hub id
    base_files: Mapping[str, str]  # file name -> SHA-256
    files: Mapping[str, str]  # of the adapter and the head
    language: str  # by its English name
    question_tokens: int  # longer questions and sentences are cut
    sentence_tokens: int


class PairTokens:
    """Token ids of a question and a sentence, as BERT reads pairs: [CLS] question [SEP] sentence [SEP]."""

    def __init__(self, tokenizer: Tokenizer, *, question_tokens: int, sentence_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._lengths = question_tokens, sentence_tokens
        start, separator = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        if start is None or separator is None:
            raise ContractError("The reader's base has no [CLS] and [SEP]. Train the reader over a BERT model.")
        self._start, self._separator = start, separator

    def of(self, question: str, sentences: Sequence[str]) -> list[list[int]]:
        first, second = self._lengths
        encoded = self._tokenizer.encode_batch([question, *sentences], add_special_tokens=False)
        before = [self._start, *encoded[0].ids[:first], self._separator]
        return [[*before, *each.ids[:second], self._separator] for each in encoded[1:]]


class SentenceScorer:
    """Scores sentences for a question. Thread-safe."""

    def __init__(
        self, contract: ReaderContract, decoder: Decoder, embedding: Tensor, head: nn.Linear, tokenizer: Tokenizer
    ) -> None:
        """embedding: (V, D). head: from D states to one score."""
        self.contract = contract
        self._decoder, self._embedding, self._head = decoder, embedding, head
        self._tokens = PairTokens(
            tokenizer, question_tokens=contract.question_tokens, sentence_tokens=contract.sentence_tokens
        )

    @property
    def language(self) -> str:
        return self.contract.language

    def score(self, question: str, sentences: Sequence[str]) -> np.ndarray:
        """One score per sentence (n,), a logit: above 0 the sentence rather answers the question than not."""
        pairs = self._tokens.of(question, sentences)
        scores = np.zeros(len(pairs), dtype=np.float32)
        for rows in plan_batches([len(each) for each in pairs], batch_size=len(pairs), max_tokens=BATCH_TOKENS):
            scores[rows] = self._score([pairs[row] for row in rows])
        return scores

    @torch.inference_mode()
    def _score(self, pairs: Sequence[Sequence[int]]) -> np.ndarray:
        """pairs: longest first."""
        lengths = torch.tensor([len(each) for each in pairs])
        run = self._decoder.start(lengths.tolist(), steps=0, like=self._embedding)
        states = run.read(self._embedding[torch.tensor([token for each in pairs for token in each])])
        rows = torch.repeat_interleave(torch.arange(len(pairs)), lengths)
        sums = torch.zeros(len(pairs), states.shape[1]).index_add_(0, rows, states.float())
        scores: np.ndarray = self._head(sums / lengths[:, None])[:, 0].numpy()
        return scores


def load_answer_reader(folder: Path = SHIPPED_READER) -> SentenceScorer:
    """Loads a reader for scoring. Raises ContractError if files are missing or damaged."""
    contract = read_reader_contract(folder)
    base = locate_model(contract.base)
    verify_weights(base, contract.base_files)
    verify_files(folder, contract.files)
    model = load_bert(base)
    if model is None:
        raise ContractError(f"{contract.base} is not a BERT model, so {folder} cannot be loaded over it.")
    merged = merge_adapter(model, folder)
    head = nn.Linear(model.get_input_embeddings().embedding_dim, 1)
    try:
        head.load_state_dict(read_weights(folder / HEAD_FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ContractError(f"{folder / HEAD_FILE} is not a reader's head ({error}). Get the reader again.") from error
    decoder = Decoder(read_layout(merged), None, is_bidirectional=True)
    embedding = model.get_input_embeddings().weight.detach()
    return SentenceScorer(contract, decoder, embedding, head.requires_grad_(False), load_tokenizer(base))


def read_reader_contract(folder: Path) -> ReaderContract:
    path = folder / CONTRACT_FILE
    try:
        return ReaderContract(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ContractError(f"{path} cannot be read ({error}). Get the reader again.") from error


def write_reader_contract(folder: Path, contract: ReaderContract) -> None:
    text = json.dumps(asdict(contract), indent=2, ensure_ascii=False) + "\n"
    (folder / CONTRACT_FILE).write_text(text, encoding="utf-8")
