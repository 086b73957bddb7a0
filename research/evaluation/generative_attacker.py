"""A generative attacker: a GRU decoder that writes a text, word piece by word piece, from its stored vector.

The idea is that of Song & Raghunathan 2020 (Information Leakage in Embedding Models) and Morris et al. 2023 (Text
Embeddings Reveal (Almost) As Much As Text: vec2text). Ours is far smaller than theirs, and corrects nothing that it
wrote, so what it reads is a lower bound on what leaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from tqdm.auto import tqdm

from embedder.errors import DataError

MAX_PIECES = 80  # of a text; what follows is neither learnt nor written
_END = 0  # the entry that ends a text, and that stands before its first piece
_LEAST_OCCURRENCES = 2  # of a piece that is learnt
_CUTOFFS = (500, 3000)  # of the adaptive softmax: a full one takes most of the training's time
_NO_PIECE = -1  # fills up the shorter texts of a batch
_READ_BATCH = 256
_BUCKET = 50  # batches whose texts are sorted by length, so that little is filled up
_WARM_UP = 0.1  # of the updates


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """passes: over the texts; few texts are passed more often, until there are `min_updates` of the weights.

    word_dropout: share of the pieces read that are hidden in training, so that the decoder relies on the vector
    (Bowman et al. 2016).
    """

    hidden: int = 512
    embedding: int = 128
    passes: int = 4
    min_updates: int = 800
    batch_size: int = 64
    learning_rate: float = 4e-3
    dropout: float = 0.1
    word_dropout: float = 0.25
    max_gradient_norm: float = 1.0


class PieceVocabulary:
    """The tokenizer's word pieces that occur twice or more in `texts`, by falling frequency: entries 1 to size - 2.

    Entry 0 ends a text, the last one stands for any other piece. Raises DataError where no piece occurs twice.
    """

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        counts = Counter(piece for ids in self._ids(texts) for piece in ids)
        self._pieces = [piece for piece, count in counts.most_common() if count >= _LEAST_OCCURRENCES]
        if not self._pieces:
            raise DataError(
                f"No word piece occurs {_LEAST_OCCURRENCES} times in the attacker's {len(texts)} texts. Give it more."
            )
        self._entries = {piece: entry for entry, piece in enumerate(self._pieces, start=1)}
        self.size = len(self._pieces) + 2

    @property
    def unknown(self) -> int:
        return self.size - 1

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Entries of each text, the end included; of at most MAX_PIECES pieces."""
        return [
            [*(self._entries.get(piece, self.unknown) for piece in ids[:MAX_PIECES]), _END] for ids in self._ids(texts)
        ]

    def decode(self, entries: Sequence[int]) -> str:
        """The text of entries up to the end; unknown pieces are left out."""
        known = (entry for entry in entries if entry not in (_END, self.unknown))
        text: str = self._tokenizer.decode([self._pieces[entry - 1] for entry in known])
        return text.strip()

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [each.ids for each in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]


class TextDecoder(nn.Module):
    """One layer of GRU whose start state is a projection of the vector; an adaptive softmax over the pieces."""

    def __init__(self, dimension: int, size: int, config: DecoderConfig) -> None:
        super().__init__()
        self._unknown = size - 1
        self._word_dropout = config.word_dropout
        self._project = nn.Linear(dimension, config.hidden)
        self._embed = nn.Embedding(size, config.embedding)
        self._gru = nn.GRU(config.embedding, config.hidden, batch_first=True)
        self._dropout = nn.Dropout(config.dropout)
        cutoffs = [cutoff for cutoff in _CUTOFFS if cutoff < size] or [size - 1]
        self._softmax = nn.AdaptiveLogSoftmaxWithLoss(config.hidden, size, cutoffs, div_value=2.0)

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy in nats of targets (n, length), by teacher forcing, given vectors (n, dimension).

        Neither _NO_PIECE nor the unknown piece is to be predicted.
        """
        states, _ = self._gru(self._dropout(self._embed(self._inputs(targets))), self._start(vectors))
        predicted = (targets != _NO_PIECE) & (targets != self._unknown)
        loss: Tensor = self._softmax(self._dropout(states[predicted]), targets[predicted]).loss
        return loss

    def _inputs(self, targets: Tensor) -> Tensor:
        """What is read before each target: the piece before it, or the unknown one in its place (n, length)."""
        inputs = targets.roll(1, dims=1).clamp(min=_END)
        inputs[:, 0] = _END
        hidden = torch.rand(inputs.shape, device=inputs.device) < self._word_dropout
        return inputs.masked_fill(hidden, self._unknown)

    def _start(self, vectors: Tensor) -> Tensor:
        return torch.tanh(self._project(vectors))[None]

    @torch.inference_mode()
    def write(self, vectors: Tensor) -> np.ndarray:
        """Greedy decoding: the most probable entry at every place (n, MAX_PIECES), 0 from the end on."""
        written = np.zeros((len(vectors), MAX_PIECES), dtype=np.int64)
        state = self._start(vectors)
        last = torch.full((len(vectors),), _END, device=vectors.device)
        is_open = torch.ones_like(last, dtype=torch.bool)
        for place in range(MAX_PIECES):
            output, state = self._gru(self._embed(last)[:, None], state)
            last = self._softmax.predict(output[:, 0])
            is_open &= last != _END
            if not is_open.any():
                break
            written[:, place] = torch.where(is_open, last, _END).cpu().numpy()
        return written


class GenerativeAttacker:
    """Learns to write texts from their vectors (n, dimension). Equal seeds read alike on the same CPU.

    tokenizer: neither cuts nor pads, as `load_model_tokenizer` gives it. Raises ValueError unless there is a vector for
    every text, DataError where no word piece occurs twice.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        texts: Sequence[str],
        tokenizer: Tokenizer,
        *,
        config: DecoderConfig | None = None,
        seed: int = 0,
        device: str = "cpu",
        progress: str | None = None,  # what the bar is named; None shows none
    ) -> None:
        if len(vectors) != len(texts):
            raise ValueError(f"The attacker has {len(vectors)} vectors and {len(texts)} texts; give one for each text.")
        self._config = config or DecoderConfig()
        self._device = device
        self._mean, self._deviation = vectors.mean(axis=0), vectors.std(axis=0).clip(1e-6)
        self._vocabulary = PieceVocabulary(tokenizer, texts)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._decoder = TextDecoder(vectors.shape[1], self._vocabulary.size, self._config).to(device)
            self._train(self._standardised(vectors), self._vocabulary.encode(texts), seed=seed, progress=progress)
        self._decoder.eval()

    def read(self, vectors: np.ndarray) -> list[str]:
        """A text for each of the vectors (n, dimension), as the tokenizer writes it: often in lower case."""
        parts = self._standardised(vectors).split(_READ_BATCH)
        return [self._vocabulary.decode(entries) for part in parts for entries in self._decoder.write(part).tolist()]

    def _standardised(self, vectors: np.ndarray) -> Tensor:
        """Each dimension of mean 0 and deviation 1 over the attacker's vectors."""
        scaled = (vectors - self._mean) / self._deviation
        return torch.from_numpy(scaled.astype(np.float32)).to(self._device)

    def _train(self, vectors: Tensor, entries: Sequence[Sequence[int]], *, seed: int, progress: str | None) -> None:
        config = self._config
        updates = max(config.passes * -(-len(entries) // config.batch_size), config.min_updates)
        optimiser = torch.optim.AdamW(self._decoder.parameters(), lr=config.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda update: min(1, (update + 1) / (_WARM_UP * updates)) * (1 - update / updates)
        )
        batches = shuffled_batches([len(each) for each in entries], config.batch_size, seed=seed)
        self._decoder.train()
        with tqdm(total=updates, desc=progress, disable=progress is None, unit="update", leave=False) as bar:
            for _ in range(updates):
                rows = next(batches)
                optimiser.zero_grad()
                loss = self._decoder(vectors[rows], self._padded([entries[row] for row in rows]))
                loss.backward()
                nn.utils.clip_grad_norm_(self._decoder.parameters(), config.max_gradient_norm)
                optimiser.step()
                schedule.step()
                bar.set_postfix(loss=f"{loss.item():.2f}", refresh=False)
                bar.update()

    def _padded(self, entries: Sequence[Sequence[int]]) -> Tensor:
        padded = np.full((len(entries), max(map(len, entries))), _NO_PIECE, dtype=np.int64)
        for row, each in enumerate(entries):
            padded[row, : len(each)] = each
        return torch.from_numpy(padded).to(self._device)


def shuffled_batches(lengths: Sequence[int], batch_size: int, *, seed: int) -> Iterator[list[int]]:
    """Rows of texts of similar length, without end: each pass holds every row once, in an order of its own."""
    rng = np.random.default_rng(seed)
    known = np.asarray(lengths)
    while True:
        order = rng.permutation(len(known))
        step = batch_size * _BUCKET
        buckets = [order[start : start + step] for start in range(0, len(order), step)]
        order = np.concatenate([rows[np.argsort(known[rows], kind="stable")] for rows in buckets])
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        yield from (batches[place].tolist() for place in rng.permutation(len(batches)))
