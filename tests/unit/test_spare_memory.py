"""The memory that runs hand on to each other."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import family_encoder, save_tiny_model

from embedder.spare_memory import MOST_BYTES, SpareMemory


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


def test_too_large_a_block_goes_back_to_the_system() -> None:
    spare = SpareMemory()
    spare.take((MOST_BYTES + 1,), torch.uint8, owner=Owner())
    assert spare._block is None


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_what_a_run_left_there_changes_no_vector(tmp_path: Path, family: str) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path, family))
    texts = ["one", "a somewhat longer text of nine words in all", "two words"]
    fresh = encoder.encode_queries(texts, steps=3)
    decoder = encoder._backbone.decoder
    assert decoder is not None
    block = decoder._spare._block
    assert block is not None
    block.view(torch.float32)[:] = torch.nan  # as bad as memory can be
    np.testing.assert_array_equal(encoder.encode_queries(texts, steps=3), fresh)
