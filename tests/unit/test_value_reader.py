"""The value reader and the decoder over last states: where they begin, what they look at, what they leave alone."""

from pathlib import Path

import pytest
import torch
from transformers import BertModel
from value_parts import SHAPE, save_tiny_bert

from embedder.value_decoder import ValueDecoder
from embedder.value_reader import PlainEncoder, ValueReader

TEXTS = [[101, 2417, 2668, 4442, 102], [101, 2087, 1997, 1996, 3526, 1005, 102], [101, 2668, 102]]
INSTRUCTION = [101, 2029, 2112, 102]
NAMES = [[101, 2417, 102], [101, 2668, 4442, 102]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def encoder(base: Path) -> PlainEncoder:
    return PlainEncoder(base)


def test_the_plain_encoder_gives_what_transformers_gives(base: Path, encoder: PlainEncoder):
    states, vectors = encoder(TEXTS, keep=SHAPE.layers)
    reference = BertModel.from_pretrained(base, add_pooling_layer=False).eval()
    for ids, found, vector in zip(TEXTS, states, vectors, strict=True):
        with torch.no_grad():
            wanted = reference(torch.tensor([ids])).last_hidden_state[0]
        assert torch.allclose(found, wanted, atol=1e-5)
        assert torch.allclose(vector, torch.nn.functional.normalize(wanted.mean(0), dim=0), atol=1e-5)


def test_fewer_layers_give_the_same_kept_states(encoder: PlainEncoder):
    for short, whole in zip(encoder(TEXTS, keep=2, layers=2)[0], encoder(TEXTS, keep=2)[0], strict=True):
        assert torch.equal(short, whole)


@pytest.mark.parametrize("kind", [ValueReader, ValueDecoder])
def test_a_vector_does_not_depend_on_its_batch(encoder: PlainEncoder, kind: type[ValueReader]):
    model = kind(encoder, upper=2)
    states = encoder(TEXTS, keep=model.keep)[0]
    lens = model.read_lens(encoder([INSTRUCTION], keep=model.keep)[0][0], (), names_beside=False)
    together = model.read(states, lens)[-1]
    for row, vector in zip(states, together, strict=True):
        assert torch.allclose(model.read([row], lens)[-1, 0], vector, atol=1e-5)


def test_a_reader_that_looks_at_nothing_beside_is_plain(encoder: PlainEncoder):
    model = ValueReader(encoder, upper=2)
    with torch.no_grad():
        model.relations.fill_(-1e4)
    states, _ = encoder(TEXTS, keep=model.keep)
    lens = model.read_lens(encoder([INSTRUCTION], keep=model.keep)[0][0], (), names_beside=False)
    assert torch.allclose(model.read(states, lens)[-1], encoder(TEXTS, keep=0)[1], atol=1e-5)


def test_a_decoder_begins_at_the_plain_vector(encoder: PlainEncoder):
    model = ValueDecoder(encoder, upper=2)
    names = encoder(NAMES, keep=model.keep)[0]
    lens = model.read_lens(encoder([INSTRUCTION], keep=model.keep)[0][0], names, names_beside=True)
    assert torch.allclose(
        model.read(encoder(TEXTS, keep=model.keep)[0], lens)[-1], encoder(TEXTS, keep=0)[1], atol=1e-5
    )
    assert lens.names is not None
    assert torch.allclose(lens.names, encoder(NAMES, keep=0)[1], atol=1e-5)


@pytest.mark.parametrize("kind", [ValueReader, ValueDecoder])
def test_instruction_and_names_change_the_reading_and_get_gradients(encoder: PlainEncoder, kind: type[ValueReader]):
    model = kind(encoder, upper=2)
    if isinstance(model, ValueDecoder):
        torch.nn.init.eye_(model.answer.weight)
    states = encoder(TEXTS, keep=model.keep)[0]
    instruction, *names = encoder([INSTRUCTION, *NAMES], keep=model.keep)[0]
    alone = model.read(states, model.read_lens(instruction, names, names_beside=False))[-1]
    lens = model.read_lens(instruction, names, names_beside=True)
    beside = model.read(states, lens)[-1]
    assert not torch.allclose(alone, beside, atol=1e-6)
    assert lens.names is not None
    model.scores(beside, lens.names).square().sum().backward()
    assert model.relations.grad is not None
    assert bool((model.relations.grad != 0).any())
    assert all(parameter.grad is not None for layer in model.trained for parameter in layer.parameters())


def test_steps_begin_as_the_reading_before_them_and_do_not_depend_on_later_ones(encoder: PlainEncoder):
    model = ValueReader(encoder, upper=2)
    instruction, *names = encoder([INSTRUCTION, *NAMES], keep=model.keep)[0]
    states = encoder(TEXTS, keep=model.keep)[0]
    lens = model.read_lens(instruction, names, names_beside=True)
    first = model.read(states, lens, steps=2)
    assert first.shape == (3, len(TEXTS), SHAPE.hidden)
    assert torch.allclose(first[0], first[2], atol=1e-6)
    torch.nn.init.ones_(model.share)
    refined = model.read(states, lens, steps=2)
    assert torch.allclose(refined[0], first[0], atol=1e-5)
    assert not torch.allclose(refined[1], refined[0], atol=1e-3)
    assert torch.allclose(model.read(states, lens, steps=1)[1], refined[1], atol=1e-5)
    assert torch.allclose(model.read(states[:1], lens, steps=2)[:, 0], refined[:, 0], atol=1e-5)


def test_steps_need_names(encoder: PlainEncoder):
    model = ValueReader(encoder, upper=2)
    lens = model.read_lens(encoder([INSTRUCTION], keep=model.keep)[0][0], (), names_beside=True)
    with pytest.raises(ValueError, match="the lens has none"):
        model.read(encoder(TEXTS, keep=model.keep)[0], lens, steps=1)


@pytest.mark.parametrize("kind", [ValueReader, ValueDecoder])
def test_a_reader_moved_to_plain_is_plain_again(encoder: PlainEncoder, kind: type[ValueReader]):
    model = kind(encoder, upper=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.relations.fill_(-1e4)
    states = encoder(TEXTS, keep=model.keep)[0]
    instruction = encoder([INSTRUCTION], keep=model.keep)[0][0]
    moved = model.read(states, model.read_lens(instruction, (), names_beside=False))[-1]
    assert not torch.allclose(moved, encoder(TEXTS, keep=0)[1], atol=1e-2)
    model.move_to_plain(encoder, share=1.0)
    back = model.read(states, model.read_lens(instruction, (), names_beside=False))[-1]
    assert torch.allclose(back, encoder(TEXTS, keep=0)[1], atol=1e-5)
