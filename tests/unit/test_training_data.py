"""Training files of others and of ours: what is read, what is refused and in which words."""

import gzip
import json
import logging

import pytest

from embedder.errors import DataError
from embedder.training.data import Pair, fingerprint_of, read_training_data

FLAG_ROWS = [
    {"query": "q1", "pos": ["p1", "p2"], "neg": ["n"], "pos_scores": [1.5, 1], "neg_scores": [0], "prompt": "Find it."},
    {"query": "q2", "pos": ["p3"], "neg": [], "prompt": "Find it.", "type": "normal"},
    {"query": "q3", "pos": ["p4"]},
]


@pytest.fixture
def folder(tmp_path):
    """An empty folder of training files."""
    (tmp_path / "train").mkdir()
    return tmp_path / "train"


def write_lines(path, *lines):
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_flag_embedding_files_are_read_and_their_scores_named_once(folder, suffix, caplog):
    write_lines(folder / f"pairs.flag.{suffix}", *FLAG_ROWS)
    with caplog.at_level(logging.WARNING):
        data = read_training_data(folder)
    assert data.pairs == {
        "flag": [
            Pair("Find it.", "q1", ("p1", "p2"), ("n",)),
            Pair("Find it.", "q2", ("p3",)),
            Pair("", "q3", ("p4",)),
        ]
    }
    assert [record.message for record in caplog.records if "neg_scores" in record.message] == [
        f"{folder}/pairs.flag.{suffix}: pos_scores and neg_scores are not used; the contrastive loss takes no scores."
    ]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"pos": ["p"]}, "`query` is None"),
        ({"query": "  ", "pos": ["p"]}, "`query` is '  '"),
        ({"query": "q"}, "`pos` is missing or empty"),
        ({"query": "q", "pos": []}, "`pos` is missing or empty"),
        ({"query": "q", "pos": "p"}, "`pos` is 'p', but must be a list"),
        ({"query": "q", "pos": ["p", 3]}, "`pos` is"),
        ({"query": "q", "pos": ["p"], "neg": [""]}, "`neg` is"),
        ({"query": "q", "pos": ["p"], "prompt": 3}, "`prompt`"),
        (["q", "p"], "not a JSON object"),
        ("{broken", "not valid JSON"),
    ],
)
def test_wrong_row_is_named_with_file_and_line(folder, row, complaint):
    write_lines(folder / "pairs.x.jsonl.gz", FLAG_ROWS[0], row)
    with pytest.raises(DataError, match=r"pairs\.x\.jsonl\.gz, line 2: ") as raised:
        read_training_data(folder)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [({"task": "t", "query": "q", "pos": ["p"], "neg": ["n"]}, "`task`"), ({"task": "t:a|b", "query": "q"}, "`neg`")],
)
def test_wrong_triplet_is_named(folder, row, complaint):
    write_lines(folder / "triplets.x.jsonl", row)
    with pytest.raises(DataError, match=f"line 1: {complaint}"):
        read_training_data(folder)


def test_file_that_is_no_gzip_is_named(folder):
    (folder / "pairs.x.jsonl.gz").write_text("plain text")
    with pytest.raises(DataError, match=r"pairs\.x\.jsonl\.gz, after line 0"):
        read_training_data(folder)


def test_labels_need_their_instructions_and_pairs_do_not(folder):
    write_lines(folder / "pairs.x.jsonl", FLAG_ROWS[0])
    assert read_training_data(folder).pairs
    write_lines(folder / "labels.y.jsonl", {"text": "t", "labels": {"a": "l"}})
    with pytest.raises(DataError, match=r"instructions\.json is missing"):
        read_training_data(folder)


def test_fingerprint_tells_other_files_and_leaves_skipped_ones_out(folder):
    write_lines(folder / "pairs.x.jsonl", FLAG_ROWS[0])
    before = fingerprint_of(folder)
    write_lines(folder / "pairs.y.jsonl", FLAG_ROWS[0])
    assert fingerprint_of(folder) != before
    assert fingerprint_of(folder, skip_tasks=frozenset({"y"})) == before
    write_lines(folder / "pairs.x.jsonl", *FLAG_ROWS)
    assert fingerprint_of(folder, skip_tasks=frozenset({"y"})) != before
