"""Training of the value reader: what is drawn, what is lost, and that a stopped run goes on as if it had not been."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from value_parts import save_tiny_bert, write_training_data

from embedder.training.data import DataError
from embedder.training.progress import read_log
from embedder.training.state import CHECKPOINT_FILE, load_weights
from embedder.training.value_reading.config import ReadingConfig
from embedder.training.value_reading.objective import gold_mask, likeness_loss, naming_loss
from embedder.training.value_reading.sampling import KINDS, GroupSampler
from embedder.training.value_reading.tasks import ReadingData, is_inner, read_reading_data
from embedder.training.value_reading.train import ReadingTrainer

WEIGHTS = dict.fromkeys(KINDS, 1.0)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def rows(train: Path) -> ReadingData:
    return read_reading_data(train, skip_tasks=frozenset(), seed=1)


def test_inner_aspects_are_never_trained_on(rows: ReadingData):
    trained = {task.name for task in rows.tasks}
    assert rows.inner
    assert all(is_inner(task.name) and task.name not in trained for task in rows.inner)


def test_a_skipped_task_gives_nothing(train: Path):
    rows = read_reading_data(train, skip_tasks=frozenset({"opentriviaqa", "answers"}), seed=1)
    assert {task.kind for task in rows.tasks} == {"aspects", "labels"}
    assert not rows.choices
    assert "Find the answer." not in rows.retrieval


def test_batches_are_a_function_of_seed_and_step(rows: ReadingData):
    one, other = (GroupSampler(rows, WEIGHTS, size=6, groups=4, seed=3) for _ in range(2))
    assert [one.batch(step) for step in range(5)] == [other.batch(step) for step in range(5)]
    assert one.batch(0) != one.batch(1)


def test_every_text_has_its_name_among_the_names(rows: ReadingData):
    sampler = GroupSampler(rows, WEIGHTS, size=6, groups=4, seed=3)
    groups = [group for step in range(40) for group in sampler.batch(step)]
    assert {group.kind for group in groups} == {"aspects", "composed", "labels", "choices", "retrieval"}
    for group in groups:
        assert len(group.texts) == len(group.gold) <= 6
        if group.kind == "retrieval":
            assert not group.names
        else:
            assert all(group.gold)
        if group.kind in ("aspects", "composed"):
            own = [[group.names[place].split()[-1] for place in places] for places in group.gold]
            assert all(name[0] in text for name, text in zip(own, group.texts, strict=True))


def test_naming_loss_takes_any_of_several_names():
    scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    loss = naming_loss(scores, gold_mask([[0, 1], [2]], 3))
    chances = scores.softmax(1)
    wanted = -(torch.log(chances[0, 0] + chances[0, 1]) + torch.log(chances[1, 2])) / 2
    assert torch.allclose(loss, wanted)


def test_likeness_needs_two_texts_of_a_value():
    vectors = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.0]]), dim=1)
    assert likeness_loss(vectors, gold_mask([[0], [1], [2]], 3), temperature=0.1) is None
    near = likeness_loss(vectors, gold_mask([[0], [0], [1]], 2), temperature=0.1)
    far = likeness_loss(vectors, gold_mask([[0], [1], [0]], 2), temperature=0.1)
    assert near is not None
    assert far is not None
    assert near < far


def _config(base: Path, **changes) -> ReadingConfig:
    config = ReadingConfig(
        name="tiny",
        base=str(base),
        upper=2,
        texts=200,
        groups=3,
        group_size=4,
        weights=WEIGHTS,
        warmup_texts=10,
        relation_rate=1e-4,
    )
    return replace(config, **changes)


@pytest.mark.parametrize("architecture", ["joint", "decoder"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path, train: Path, architecture: str):
    base = save_tiny_bert(tmp_path / "bert")
    config = _config(base, architecture=architecture, steps=2 if architecture == "joint" else 0)
    ReadingTrainer(config, data=train, out=tmp_path / "whole").run(until=120)
    ReadingTrainer(config, data=train, out=tmp_path / "stopped").run(until=50)
    ReadingTrainer(config, data=train, out=tmp_path / "stopped").run(until=120)
    whole, stopped = (load_weights(tmp_path / name) for name in ("whole", "stopped"))
    assert whole.keys() == stopped.keys()
    for name, tensor in whole.items():  # states are kept in bf16, which rounds differently in other batches
        assert torch.allclose(tensor, stopped[name], atol=2e-3), name
    places = [torch.load(tmp_path / name / CHECKPOINT_FILE, weights_only=True) for name in ("whole", "stopped")]
    assert [(place["step"], place["schedule"]["texts"]) for place in places[:1]] == [
        (place["step"], place["schedule"]["texts"]) for place in places[1:]
    ]


def test_a_run_logs_what_it_has_seen_and_keeps_its_config(tmp_path: Path, train: Path):
    base = save_tiny_bert(tmp_path / "bert")
    ReadingTrainer(_config(base, texts=1200), data=train, out=tmp_path / "run").run()
    rows = read_log(tmp_path / "run")
    assert rows[0]["step"] == 20
    assert rows[0]["texts_seen"] > 0
    with pytest.raises(DataError, match="another config"):
        ReadingTrainer(_config(base, texts=100), data=train, out=tmp_path / "run")


def test_a_config_names_only_what_exists():
    with pytest.raises(DataError, match="kinds of groups"):
        ReadingConfig(name="x", weights={"poems": 1.0})
    with pytest.raises(DataError, match="architecture"):
        ReadingConfig(name="x", architecture="recurrent")
