"""Steps over memory that stays: what a CUDA graph holds gives the states of a plain run, and who may use it when.

Capture and replay need a card and are not tested here; a capture that changes nothing stands for them.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, bert_encoder, family_encoder, save_tiny_model
from torch import Tensor

from embedder.encoder import Encoder
from embedder.model.backbone import with_decoder
from embedder.model.cuda_graphs import MOST_ROWS, BorrowedSession, GraphedDecoder, StaticCacheSession, shape_for
from embedder.model.decoder import Decoder, KVCacheSession

TEXTS = ["Short.", "A text of middling length that says little.", "naïve café — 東京 ✓ and the longest of them all"]


# Models with windows get none (gemma3).
@pytest.fixture(params=[*(each for each in FAMILIES if each != "gemma3"), "bert"])
def encoder(request, tmp_path: Path) -> Encoder:
    if request.param == "bert":
        return bert_encoder()
    return family_encoder(save_tiny_model(tmp_path, request.param))


def graphed(decoder: Decoder, **changes) -> GraphedDecoder:
    captured: list[StaticCacheSession] = []
    found = GraphedDecoder(
        decoder._layout,
        decoder.vocabulary,
        is_bidirectional=decoder._is_bidirectional,
        **{"capture": captured.append, **changes},
    )
    found.captured = captured
    return found


def with_graphs(encoder: Encoder, **changes) -> GraphedDecoder:
    decoder = graphed(encoder._backbone.decoder, **changes)
    object.__setattr__(encoder._backbone, "decoder", decoder)
    return decoder


def test_vectors_are_the_same(encoder: Encoder) -> None:
    batches = [TEXTS, TEXTS[::-1], TEXTS[:1], TEXTS[1:]]
    expected = [encoder.encode_prefixes(texts, steps=6) for texts in batches]
    decoder = with_graphs(encoder)
    # Twice: a batch finds what another one of its shape has left.
    for texts, each in zip(batches * 2, expected * 2, strict=True):
        np.testing.assert_allclose(encoder.encode_prefixes(texts, steps=6), each, atol=1e-5, rtol=0)
    assert {(len(run._starts), len(run._places)) for run in decoder.captured} == {(1, 64), (2, 64), (4, 64)}
    assert len(decoder.captured) == 3


def test_a_step_writes_where_it_read(encoder: Encoder) -> None:
    """A graph replays over addresses: no tensor of a run may be another one after a batch or a step."""
    decoder = with_graphs(encoder)
    encoder.encode_queries(TEXTS[:1], steps=2)
    [run] = decoder.captured
    tensors = {name: each.data_ptr() for name, each in vars(run).items() if isinstance(each, Tensor)}
    tensors |= {"keys": run._keys.data_ptr(), "values": run._values.data_ptr()}
    encoder.encode_queries(TEXTS[1:2], steps=9)
    assert decoder.captured == [run]
    after = {name: each.data_ptr() for name, each in vars(run).items() if isinstance(each, Tensor)}
    assert after | {"keys": run._keys.data_ptr(), "values": run._values.data_ptr()} == tensors
    assert len(tensors) == 8


def test_what_is_not_finite_does_not_reach_the_next_batch(encoder: Encoder) -> None:
    expected = encoder.encode_queries(TEXTS[:1], steps=3)
    decoder = with_graphs(encoder)
    encoder.encode_queries(TEXTS[:1], steps=3)
    [run] = decoder.captured
    for each in (run._keys, run._values):
        each.fill_(torch.nan)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS[:1], steps=3), expected, atol=1e-5, rtol=0)


@pytest.fixture
def decoder(tmp_path: Path) -> Decoder:
    return family_encoder(save_tiny_model(tmp_path, "qwen2"))._backbone.decoder


LIKE = torch.zeros(1, 32)


def test_one_batch_at_a_time_has_a_graph(decoder: Decoder) -> None:
    found = graphed(decoder)
    first = found.start([3], steps=2, like=LIKE)
    assert isinstance(first, BorrowedSession)
    assert type(found.start([4], steps=2, like=LIKE)) is KVCacheSession  # of the same shape
    assert isinstance(found.start([100], steps=2, like=LIKE), BorrowedSession)
    del first  # before its last step
    assert isinstance(found.start([4], steps=2, like=LIKE), BorrowedSession)
    assert len(found.captured) == 2


def test_a_pass_without_steps_and_many_rows_have_none(decoder: Decoder) -> None:
    found = graphed(decoder)
    assert type(found.start([3], steps=0, like=LIKE)) is KVCacheSession
    assert type(found.start([3] * (MOST_ROWS + 1), steps=2, like=LIKE)) is KVCacheSession
    assert not found.captured


def test_what_was_used_longest_ago_goes_first(decoder: Decoder) -> None:
    found = graphed(decoder, most_graphs=2)
    for length in (10, 100, 10, 200):  # 100 goes
        found.start([length], steps=2, like=LIKE)
    assert [shape.places for shape in found._runs] == [64, 256]
    held = [found.start([length], steps=2, like=LIKE) for length in (10, 200)]
    assert type(found.start([100], steps=2, like=LIKE)) is KVCacheSession  # both are in use
    del held


def test_graphs_keep_no_more_than_their_bytes(decoder: Decoder) -> None:
    one = 2 * 2 * 2 * 8 * 64 * 4  # layers, keys and values, key heads, head size, places, bytes of a number
    found = graphed(decoder, most_bytes=3 * one)
    for rows in (1, 2, 1):
        assert isinstance(found.start([3] * rows, steps=1, like=LIKE), BorrowedSession)
    assert found._bytes_kept() == 3 * one
    assert type(found.start([3] * 4, steps=1, like=LIKE)) is KVCacheSession
    assert found._bytes_kept() == 3 * one  # none was dropped for what would not fit anyway
    assert isinstance(found.start([100], steps=1, like=LIKE), BorrowedSession)
    assert [(shape.rows, shape.places) for shape in found._runs] == [(1, 64), (1, 128)]  # that of two rows has gone


def test_a_failed_capture_turns_graphs_off(decoder: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    tried = []

    def fail(run: StaticCacheSession) -> None:
        tried.append(run)
        raise RuntimeError("operation not permitted when stream is capturing")

    found = graphed(decoder, capture=fail)
    for _ in range(2):
        assert type(found.start([3], steps=2, like=LIKE)) is KVCacheSession
    assert len(tried) == 1
    assert "not permitted" in caplog.text


def test_no_step_is_taken_beyond_the_memory(decoder: Decoder) -> None:
    run = graphed(decoder).start([3], steps=1, like=LIKE)
    with torch.no_grad():
        run.read(torch.zeros(3, 32))
        run.advance(torch.zeros(1, 32))
        with pytest.raises(IndexError, match="1 steps"):
            run.advance(torch.zeros(1, 32))


def test_several_threads_get_their_own_vectors(tmp_path: Path) -> None:
    encoder = family_encoder(save_tiny_model(tmp_path, "llama"))
    expected = [encoder.encode_queries([text], steps=8) for text in TEXTS]
    decoder = with_graphs(encoder)
    wrong: list[str] = []

    def encode(row: int) -> None:
        for _ in range(10):
            found = encoder.encode_queries([TEXTS[row]], steps=8)
            if not np.allclose(found, expected[row], atol=1e-5):
                wrong.append(TEXTS[row])

    threads = [threading.Thread(target=encode, args=(row,)) for row in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(decoder.captured) == 1
    assert not decoder._lent


def test_shapes_are_few() -> None:
    cpu = torch.device("cpu")
    assert {shape_for(rows, places, cpu) for rows in range(33, 65) for places in range(449, 513)} == {
        shape_for(64, 512, cpu)
    }
    assert len({shape_for(64, places, cpu) for places in range(1, 4097)}) == 16 + 8 + 8
    for places in range(65, 4097, 7):
        shape = shape_for(64, places, cpu)
        assert shape is not None
        assert places <= shape.places < places + max(64, places / 8)
    assert shape_for(1, 1, cpu).places == 64
    assert shape_for(1, 64, cpu).rows == 1


def test_graphs_are_for_cuda_alone(tmp_path: Path) -> None:
    backbone = family_encoder(save_tiny_model(tmp_path, "qwen2"), is_packed=False)._backbone
    assert type(with_decoder(backbone, cuda_graphs=True).decoder) is Decoder
