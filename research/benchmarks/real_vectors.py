"""Vectors of real texts and of real queries by the shipped model, computed once and kept in a file that is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from app.documents.library import sample_rows
from embedder import GircseEmbeddings

JUDGED = ("cranfield", "medline_med", "stackfaq")
LABELLED = ("openstax", "factbook", "wiki_movies", "cfpb_complaints", "python_peps")
_LONGEST = 800  # characters, about a chunk
_MOST_QUERIES = 1_000
_TOGETHER = 256


@dataclass(frozen=True)
class RealVectors:
    texts: list[str]
    documents: np.ndarray
    queries: np.ndarray


def real_vectors(file: Path, data: Path | None) -> RealVectors:
    """Read from the file where it exists, else embedded and written to it."""
    if not file.exists():
        texts, queries = list(dict.fromkeys(_texts(data))), _queries(data)
        model = GircseEmbeddings(batch_size=64)
        documents = []
        for start in tqdm(range(0, len(texts), _TOGETHER), desc="embed texts"):
            documents += model.embed_documents(texts[start : start + _TOGETHER])
        asked = [
            model.with_instructions(query=instruction).embed_query(text)
            for instruction, text in tqdm(queries, desc="embed queries")
        ]
        np.savez(file, texts=texts, documents=np.float32(documents), queries=np.float32(asked))
    with np.load(file) as content:
        return RealVectors(content["texts"].tolist(), content["documents"], content["queries"])


def _texts(data: Path | None) -> Iterator[str]:
    rows = [{"text": row.text} for row in sample_rows()]
    if data is not None:
        for name in JUDGED:
            rows += _rows(data / f"ir.{name}.corpus.jsonl.gz")
        for name in LABELLED:
            rows += _rows(data / f"labels.{name}.jsonl.gz")
    for row in rows:
        if text := f"{row.get('title', '')} {row['text']}".strip():
            yield text[:_LONGEST]


def _queries(data: Path | None) -> list[tuple[str, str]]:
    """Instruction and text, shuffled; of the sample library its titles under no instruction."""
    if data is None:
        found = [("", row.title) for row in sample_rows()]
    else:
        found = [
            (row["instruction"], row["text"]) for name in JUDGED for row in _rows(data / f"ir.{name}.queries.jsonl.gz")
        ]
    return [found[place] for place in np.random.default_rng(0).permutation(len(found))[:_MOST_QUERIES]]


def _rows(file: Path) -> list[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
