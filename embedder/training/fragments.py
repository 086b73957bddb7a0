"""Finds the pieces of a vocabulary that are not words: they start longer words far more often than they stand alone.

`python -m embedder.training.fragments MODEL FILE…` writes them beside the model; its soft tokens then omit them. FILE:
JSON Lines, optionally gzip; all texts in a row count.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tokenizers import Tokenizer

from embedder.checkpoint import load_model_tokenizer, model_folder
from embedder.command.standard_output import run_program
from embedder.model.backbone import saved_pieces
from embedder.text.tokens import FRAGMENTS_FILE

_CHARACTERS_PER_FILE = 3_000_000
_WORD = re.compile(r"[^\W\d_]+")
# of all words that start with it: "red" is rarer alone than in "reduce", but a word
_FREQUENT, _FREQUENT_SHARE = 3_000, 0.2
_LEAST_SHARES = {1: 0.5, 2: 0.5, 3: 0.25}
_LEAST_SHARE, _RARE = 0.15, 200  # thresholds for longer pieces


def find_fragments(tokenizer: Tokenizer, texts: Iterable[str], pieces: Collection[str]) -> list[str]:
    """The `pieces` that start longer words in the texts and rarely stand alone as a word."""
    words = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    alone: Counter[str] = Counter()
    begun: Counter[str] = Counter()
    for word, encoding in zip(words, tokenizer.encode_batch(list(words), add_special_tokens=False), strict=True):
        length = sum(encoding.attention_mask)  # the tokenizer may pad
        if length:
            (alone if length == 1 else begun)[encoding.tokens[0]] += words[word]
    return sorted(piece for piece in pieces if _is_fragment(piece, alone[piece], begun[piece]))


def _is_fragment(piece: str, alone: int, begun: int) -> bool:
    if begun == 0:
        return False
    share = alone / (alone + begun)
    if alone >= _FREQUENT and share >= _FREQUENT_SHARE:
        return False
    if len(piece) in _LEAST_SHARES:
        return share < _LEAST_SHARES[len(piece)]
    return share < _LEAST_SHARE and alone < _RARE


def _texts_of(path: Path) -> Iterator[str]:
    read = 0
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield from _strings_in(json.loads(line))
            read += len(line)
            if read > _CHARACTERS_PER_FILE:
                return


def _strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings_in(each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--also",
        nargs="*",
        default=[],
        help="additional fragments that look like words in the files, such as `def` in code",
    )
    options = parser.parse_args()
    tokenizer, folder = load_model_tokenizer(options.model), model_folder(options.model)
    ids = saved_pieces(folder)
    pieces = (
        list(tokenizer.get_vocab()) if ids is None else [tokenizer.id_to_token(each) or "" for each in ids.tolist()]
    )
    texts = (text for path in sorted(options.files) for text in _texts_of(path))
    found = sorted({*find_fragments(tokenizer, texts, pieces), *options.also})
    (folder / FRAGMENTS_FILE).write_text("".join(f"{each}\n" for each in found), encoding="utf-8")
    sys.stdout.write(f"{len(found)} of {len(pieces)} pieces are fragments: {folder / FRAGMENTS_FILE}\n")


if __name__ == "__main__":
    run_program(main)
