"""The memory that runs hand on to each other."""

from __future__ import annotations

import gc
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_models import family_encoder, save_tiny_model

from app.wiring.embedding import LocalEmbedder
from app.wiring.ingestion import _release_memory
from embedder.model.decoder import MOST_BYTES, SpareMemory, release_spare_memory
from embedder.model_info import DEFAULT_MODEL


class Owner:
    pass


def test_a_block_comes_back_when_its_owner_is_gone() -> None:
    spare, owner, other, next_owner = SpareMemory(), Owner(), Owner(), Owner()
    first = spare.take((3, 4), torch.float32, owner=owner).data_ptr()
    assert spare.take((3, 4), torch.float32, owner=other).data_ptr() != first  # still in use
    del owner
    gc.collect()
    assert spare.take((2, 5), torch.float32, owner=next_owner).data_ptr() == first


def test_no_two_owners_have_one_block() -> None:
    spare, barrier, found = SpareMemory(), threading.Barrier(8), []
    spare.take((1000,), torch.float32, owner=Owner())

    def work() -> None:
        barrier.wait()
        owner = Owner()
        found.append((owner, spare.take((1000,), torch.float32, owner=owner).data_ptr()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({pointer for _, pointer in found}) == 8


def test_two_runs_that_go_on_at_the_same_time_have_a_block_each() -> None:
    spare, owners = SpareMemory(), [Owner() for _ in range(3)]
    first = {spare.take((1000,), torch.float32, owner=each).data_ptr() for each in owners}
    del owners
    gc.collect()
    later = [Owner() for _ in range(2)]
    assert {spare.take((1000,), torch.float32, owner=each).data_ptr() for each in later} < first
    assert not spare._blocks  # the third is not kept


def test_too_large_a_block_goes_back_to_the_system() -> None:
    spare = SpareMemory()
    spare.take((MOST_BYTES + 1,), torch.uint8, owner=Owner())
    assert not spare._blocks


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_what_a_run_left_there_changes_no_vector(tmp_path: Path, family: str) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path, family))
    texts = ["one", "a somewhat longer text of nine words in all", "two words"]
    fresh = encoder.encode_queries(texts, steps=3)
    decoder = encoder._backbone.decoder
    assert decoder is not None
    (block,) = decoder._spare._blocks
    block.view(torch.float32)[:] = torch.nan  # as bad as memory can be
    np.testing.assert_array_equal(encoder.encode_queries(texts, steps=3), fresh)


def test_what_no_run_uses_is_let_go_of_when_asked() -> None:
    kept, used, owner = SpareMemory(), SpareMemory(), Owner()
    kept.take((1000,), torch.float32, owner=Owner())
    block = used.take((1000,), torch.float32, owner=owner)
    gc.collect()
    assert kept._blocks
    release_spare_memory()
    assert not kept._blocks
    block.fill_(1.0)  # a run goes on with what it has
    del owner
    gc.collect()
    assert used._blocks


def test_a_worker_that_rests_keeps_no_memory_for_batches() -> None:
    with closing(LocalEmbedder(DEFAULT_MODEL, dtype="float32")) as embedder:
        embedder.embed_documents([f"text {n} of a batch" for n in range(64)], instruction="", steps=0)
        gc.collect()
        base = embedder.engine.encoder._backbone.base
        assert base is not None
        assert base.decoder is not None
        assert base.decoder._spare._blocks
        _release_memory(SimpleNamespace(embedder=embedder))
        assert not base.decoder._spare._blocks
