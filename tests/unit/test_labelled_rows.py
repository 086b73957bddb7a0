"""`gircse train data`: from texts with labels to files that training and evaluation read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedder.errors import DataError
from embedder.evaluation.data import read_rows
from embedder.training.__main__ import main
from embedder.training.labelled_rows import write_data

ROOT = Path(__file__).parents[2]


@pytest.fixture
def write(tmp_path: Path):
    def write(rows: list) -> Path:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


def rows_of(number: int) -> list[dict]:
    """Each text has a colour and a size; every fourth also a name that no other has."""
    return [
        {
            "title": f"Title {each}",
            "text": f"Text {each}.",
            "metadata": {
                "colour": ("red", "blue")[each % 2],
                "size": ("small", "large")[each // 2 % 2],
                "name": str(each),
            },
        }
        for each in range(number)
    ]


def test_every_text_is_either_trained_on_or_held_out(write, tmp_path: Path) -> None:
    out = tmp_path / "data"
    write_data(write(rows_of(80)), out, group_by="source")
    train, dev = ({row["text"] for row in read_rows(out / part / "labels.texts.jsonl")} for part in ("train", "dev"))
    assert train | dev == {f"Text {each}." for each in range(80)}
    assert not train & dev
    assert 40 < len(train) < 75
    assert {row["pos"][0] for row in read_rows(out / "train" / "pairs.titles.jsonl")} == train
    assert {row["text"] for row in read_rows(out / "dev" / "ir.titles.corpus.jsonl")} == dev


def test_a_triplet_shares_one_aspect_with_its_answer_and_the_other_with_its_negative(write, tmp_path: Path) -> None:
    rows = rows_of(80)
    write_data(write(rows), tmp_path / "data", group_by="source")
    labels = {row["text"]: row["metadata"] for row in rows}
    triplets = read_rows(tmp_path / "data" / "train" / "triplets.texts.jsonl")
    assert {row["task"] for row in triplets} == {"texts:colour|size", "texts:size|colour"}
    for row in triplets:
        aspect, other = row["task"].partition(":")[2].split("|")
        query, pos, neg = (labels[text] for text in (row["query"], row["pos"][0], row["neg"][0]))
        assert query[aspect] == pos[aspect] != neg[aspect]
        assert query[other] == neg[other] != pos[other]
        assert aspect in row["instruction"]


def test_labels_that_only_one_text_has_are_left_out(write, tmp_path: Path) -> None:
    write_data(write(rows_of(40)), tmp_path / "data", group_by="source")
    assert json.loads((tmp_path / "data" / "instructions.json").read_text()) == {
        "texts": {"colour": "Identify the colour of the text.", "size": "Identify the size of the text."}
    }
    assert all(
        set(row["labels"]) <= {"colour", "size"} for row in read_rows(tmp_path / "data/train/labels.texts.jsonl")
    )


def test_texts_without_labels_are_an_error(write, tmp_path: Path) -> None:
    path = write([{"text": "Text.", "metadata": {"name": "a"}}])
    with pytest.raises(DataError, match=r"rows\.jsonl has no row with a text and a label"):
        write_data(path, tmp_path / "data", group_by="source")
    with pytest.raises(DataError, match=r"gone\.jsonl is not a file"):
        write_data(tmp_path / "gone.jsonl", tmp_path / "data", group_by="source")


def test_names_of_groups_become_file_names(write, tmp_path: Path) -> None:
    rows = rows_of(80)
    for row in rows:
        row["metadata"]["source"] = "https://a.org/../b"
    write_data(write(rows), tmp_path / "data", group_by="source")
    assert (tmp_path / "data" / "train" / "labels.https_a_org_b.jsonl").is_file()


@pytest.mark.parametrize("row", ["text", ["text"], {"text": "a", "metadata": "b"}])
def test_a_malformed_row_is_named(write, tmp_path: Path, row: object) -> None:
    with pytest.raises(DataError, match=r"rows\.jsonl, line 2: not an object"):
        write_data(write([{"text": "a", "metadata": None}, row]), tmp_path / "data", group_by="source")


def test_a_pair_of_aspects_has_at_most_200_triplets(write, tmp_path: Path) -> None:
    write_data(write(rows_of(400)), tmp_path / "data", group_by="source")
    triplets = read_rows(tmp_path / "data" / "train" / "triplets.texts.jsonl")
    assert len(triplets) == 2 * 200


def test_the_sample_library_becomes_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", str(ROOT / "sample" / "library.jsonl"), "--out", str(tmp_path)]) == 0
    assert "385 texts for training, 132 held out, in 5 groups" in capsys.readouterr().out
    assert len(list((tmp_path / "train").glob("triplets.*"))) == 5
