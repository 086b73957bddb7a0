"""Hard negatives: near to the query, below the positive, never an answer, the same on every run."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_models import family_encoder, save_tiny_model

from embedder.errors import DataError
from embedder.training.__main__ import main
from embedder.training.data import Pair, read_pairs
from embedder.training.mining import Window, mine_file, mine_negatives


class PlaneEncoder:
    """Texts are angles in degrees: their neighbours can be told by hand."""

    dimension = 2

    def encode_queries(self, texts, **_):
        radians = np.radians([float(text) for text in texts])
        return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)

    encode_documents = encode_queries


@pytest.fixture
def pairs():
    """Query 0 with its answer at 10 degrees; the other queries bring candidates at 5 to 90 degrees."""
    return [Pair("", "0", ("10",)), *(Pair("", "200", (angle,)) for angle in ("5", "20", "30", "40", "90"))]


def mine(pairs, documents=None, **window):
    window = Window(**{"range_min": 0, "range_max": 10, "relative_margin": 0.0, "count": 10, **window})
    return mine_negatives(pairs, documents or [None] * len(pairs), PlaneEncoder(), window)


def test_negatives_rank_below_the_positive_nearest_first(pairs):
    assert mine(pairs)[0] == ["20", "30", "40", "90"]  # 5 degrees is nearer than the answer


def test_window_counts_ranks_without_the_answers(pairs):
    assert mine(pairs, range_min=2, range_max=4)[0] == ["30", "40"]  # ranks 0 and 1 are at 5 and 20 degrees
    assert mine(pairs, count=1)[0] == ["20"]


def test_relative_margin_leaves_out_what_scores_nearly_as_well(pairs):
    # cos 10° = 0.985; times 0.9 is 0.886, between cos 30° = 0.866 and cos 20° = 0.940
    assert mine(pairs, relative_margin=0.1)[0] == ["30", "40", "90"]


def test_answers_of_the_same_query_or_document_and_the_query_itself_are_no_negatives(pairs):
    other_answer = mine([*pairs, Pair("", "0", ("40",))])
    assert other_answer[0] == ["20", "30", "90"]
    assert other_answer[-1] == ["90"]  # 20 and 30 are nearer than this row's answer
    documents = ["a", None, "a", None, None, None]
    assert mine(pairs, documents)[0] == ["30", "40", "90"]
    assert mine([Pair("", "20", ("30",)), Pair("", "0", ("20",))])[0] == []


def test_few_candidates_give_few_negatives():
    assert mine([Pair("", "0", ("10",))]) == [[]]


@pytest.mark.parametrize("wrong", [{"range_min": 5, "range_max": 5}, {"relative_margin": 1.0}, {"count": 0}])
def test_impossible_window_is_refused(wrong):
    with pytest.raises(DataError):
        Window(**wrong)


def test_command_mines_and_names_what_it_cannot_use(tmp_path, capsys):
    base = save_tiny_model(tmp_path / "base", "qwen2")
    source = tmp_path / "pairs.zoo.jsonl"
    source.write_text("".join(json.dumps({"query": f"q{n}", "pos": [f"the dog {n}"]}) + "\n" for n in range(8)))
    command = ["mine", str(source), "--model", str(base), "--steps", "1", "--range-min", "0", "--relative-margin", "0"]
    assert main([*command, "--out", str(tmp_path / "mined")]) == 0
    assert any(pair.negatives for pair in read_pairs(tmp_path / "mined" / "pairs.zoo.jsonl.gz"))
    assert main([*command, "--out", str(tmp_path / "mined"), "--range-max", "0"]) == 1
    assert "gircse train mine: Ranks 0 to 0 are invalid" in capsys.readouterr().err
    packed = str(tmp_path / "mined" / "pairs.zoo.jsonl.gz")
    assert main(["mine", packed, "--model", str(base), "--out", str(tmp_path / "mined")]) == 1
    assert "would be overwritten" in capsys.readouterr().err


def test_mined_file_is_the_same_bytes_every_time_and_keeps_its_rows(tmp_path):
    encoder = family_encoder(save_tiny_model(tmp_path / "base", "qwen2"))
    rows = [
        {"task": "zoo", "instruction": f"Find {n % 2}.", "query": f"where {n}", "pos": [f"the dog {n}"], "neg": ["no"]}
        for n in range(12)
    ]
    source = tmp_path / "pairs.zoo.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    window = Window(range_min=1, range_max=8, relative_margin=0.0, count=3)
    targets = [tmp_path / name / "pairs.zoo.jsonl.gz" for name in ("first", "second")]
    counts = [mine_file(source, target, encoder, window, steps=2) for target in targets]
    assert targets[0].read_bytes() == targets[1].read_bytes()
    with gzip.open(targets[0], "rt") as lines:
        written = [json.loads(line) for line in lines]
    assert [{**row, "neg": ["no"]} for row in written] == rows
    assert counts[0] == counts[1] == sum(len(row["neg"]) - 1 for row in written) > 0
    for pair in read_pairs(targets[0]):
        assert not set(pair.negatives) & {*pair.positives, pair.query}
        vectors = SimpleNamespace(
            query=encoder.encode_queries([pair.query], instruction=pair.instruction, steps=2)[0],
            texts=encoder.encode_documents([*pair.positives, *pair.negatives[1:]], steps=2),
        )
        scores = vectors.texts @ vectors.query
        assert (scores[1:] <= scores[0] + 1e-6).all()
