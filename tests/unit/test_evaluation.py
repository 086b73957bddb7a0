"""`gircse eval`: the tasks on texts whose neighbours are known, the baselines, resuming, the report, the command."""

import json
import math
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tiny_models import save_tiny_model
from typer.testing import CliRunner

from app.cli import app
from embedder import load_encoder
from embedder.errors import DataError
from embedder.evaluation.__main__ import main
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import read_label_sets
from embedder.evaluation.embedders import EmbeddingCache, EncoderEmbedder, MiniLmEmbedder, bm25_scores
from embedder.evaluation.outcomes import NO_INSTRUCTION, ON_BOTH_SIDES, ON_QUERIES
from embedder.evaluation.results import outcomes_from_json, read_results
from embedder.evaluation.scoring import compare, score
from embedder.evaluation.tasks import TASKS
from embedder.evaluation.tasks.retrieval import RetrievalDataset, rank_metrics

COLOURS, ANIMALS = ("red", "green", "blue"), ("dog", "cat", "owl")
INSTRUCTIONS = {"zoo": {"colour": "Which colour?", "animal": "Which animal?"}}
TEXTS = [
    (f"the {colour} {animal} number {n}", colour, animal) for colour in COLOURS for animal in ANIMALS for n in "1234"
]


class WordEmbedder:
    """Sees one aspect's word under its instruction and every word without one. At one step it sees nothing."""

    name = "words"
    has_steps = True

    def __init__(self):
        self.embedded = []

    def embed(self, texts, *, instruction, steps):
        self.embedded += [(instruction, text) for text in texts]
        seen = {"Which colour?": COLOURS, "Which animal?": ANIMALS}.get(instruction, (*COLOURS, *ANIMALS))
        known = np.array([[float(word in text.split()) if word in seen else 0.0 for word in (*COLOURS, *ANIMALS)]
                          for text in texts])  # fmt: skip
        sharp = known / np.linalg.norm(known, axis=1, keepdims=True)
        return {k: sharp if k > 1 else np.full_like(sharp, 6**-0.5) for k in steps}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data_folder(tmp_path):
    """sts, ir, labels and triplets, of a few rows each."""
    folder = tmp_path / "dev"
    folder.mkdir()
    (tmp_path / "instructions.json").write_text(json.dumps(INSTRUCTIONS))
    labels = [{"text": text, "labels": {"colour": colour, "animal": [animal]}} for text, colour, animal in TEXTS]
    write_rows(folder / "labels.zoo.jsonl", labels)
    write_rows(
        folder / "sts.zoo.test.jsonl",
        [
            {"instruction": "Which animal?", "a": TEXTS[0][0], "b": text, "score": at}
            for at, (text, _, _) in enumerate(TEXTS)
        ],
    )
    write_rows(
        folder / "ir.zoo.corpus.jsonl", [{"_id": f"d{at}", "text": text} for at, (text, _, _) in enumerate(TEXTS)]
    )
    write_rows(
        folder / "ir.zoo.queries.jsonl",
        [{"_id": colour, "text": f"something {colour} please", "instruction": "Which colour?"} for colour in COLOURS],
    )
    write_rows(
        folder / "ir.zoo.qrels.jsonl",
        [{"qid": colour, "did": f"d{at}", "score": 1} for at, (_, colour, _) in enumerate(TEXTS)],
    )
    sides = {
        "zoo:colour|animal": ("Which colour?", "the red owl", "the blue dog"),
        "zoo:animal|colour": ("Which animal?", "the blue dog", "the red owl"),
    }
    write_rows(
        folder / "triplets.zoo.jsonl",
        [
            {"task": task, "instruction": instruction, "query": f"the red dog number {n}", "pos": [pos], "neg": [neg]}
            for task, (instruction, pos, neg) in sides.items()
            for n in range(4)
        ],
    )
    return folder


def config(folder, **changes):
    values = {"data": folder, "steps": (1, 5), "document_steps": (1, 5), "half": "all", "bootstrap": 50}
    return EvaluationConfig(**{**values, **changes})


def values_of(task, folder, **changes):
    """measure -> (condition, query steps, document steps) -> value, of the word embedder."""
    embedder = WordEmbedder()
    found = TASKS[task](config(folder, **changes), [embedder])
    scores = score(found, model="words", baseline="none", resamples=10, seed=0).scores
    table = {}
    for each in scores:
        if each.setting.system == "words":
            key = each.setting.condition, each.setting.query_steps, each.setting.document_steps
            table.setdefault((each.measure, each.metric), {})[key] = each.estimate.value
    return table, embedder


def test_no_steps_are_the_bases_own_vectors_and_follow_no_instruction():
    encoder = load_encoder()
    embedder, texts = EncoderEmbedder(encoder), ["the red dog", "a letter about rivers", "the red dog runs home"]
    found = embedder.embed(texts, instruction="Which colour?", steps=[2, 0])
    assert list(found) == [0, 2]
    plain = encoder.encode_documents(texts, instruction="", steps=0)
    np.testing.assert_allclose(found[0], plain, atol=1e-6)
    read = encoder.encode_queries(texts, instruction="Which colour?", steps=2)
    np.testing.assert_allclose(found[2], read, atol=1e-6)
    np.testing.assert_allclose(embedder.embed(texts, instruction="", steps=[0])[0], plain, atol=1e-6)

    settings = config(Path(), steps=(0, 2), document_steps=(0,))
    asked = [
        [(each.query_steps, each.document_steps) for each in settings.asymmetric(embedder, condition)]
        for condition in (NO_INSTRUCTION, ON_QUERIES)
    ]
    assert asked == [[(0, 0), (2, 0), (2, 2)], [(2, 0), (2, 2)]]
    assert [each.query_steps for each in settings.symmetric(embedder, ON_BOTH_SIDES)] == [2]


class TestTasks:
    def test_a_source_can_be_chosen_whole_or_by_aspect(self, data_folder):
        assert [each.name for each in read_label_sets(data_folder)] == ["zoo.colour", "zoo.animal"]
        assert [each.name for each in read_label_sets(data_folder, only=["zoo.animal"])] == ["zoo.animal"]

    def test_instructions_are_asked_for_by_name(self, data_folder):
        (data_folder.parent / "instructions.json").unlink()
        with pytest.raises(DataError, match=r"instructions\.json is missing"):
            read_label_sets(data_folder)

    def test_triplets_follow_the_instruction_where_it_stands(self, data_folder):
        table, embedder = values_of("triplets", data_folder, unseen=("zoo",))
        found = table["triplets.unseen", "success"]
        assert found["both", 5, 5] == 100
        assert found["query", 5, 5] == 100
        assert found["none", 5, 5] == 50  # as near to one as to the other
        assert found["both", 1, 1] == 50
        assert found["query", 5, 1] == 50
        assert ("triplets.seen", "success") not in table
        assert len(embedder.embedded) == len(set(embedder.embedded))  # nothing twice

    def test_paraphrases_are_the_shipped_ones_and_are_averaged(self, data_folder):
        row = {"instruction": "As trained.", "query": "the red dog", "pos": ["the red owl"], "neg": ["the blue fox"]}
        write_rows(
            data_folder / "triplets.zoo.jsonl",
            [{"task": "openstax:kind|subject", **row}, {"task": "zoo:colour|animal", **row}],
        )
        table, embedder = values_of("paraphrased", data_folder)
        shipped = json.loads((files("embedder.evaluation") / "paraphrases.json").read_text())["instructions"]
        assert {instruction for instruction, _ in embedder.embedded} == {"", *shipped["openstax"]["kind"]}
        assert table["paraphrased.openstax:kind|subject", "success"]["both", 5, 5] == 100
        assert not any("zoo" in measure for measure, _ in table)

    def test_label_names_are_found_by_their_texts(self, data_folder):
        table, _ = values_of("label_names", data_folder)
        found = table["label_names.mean", "accuracy"]
        assert found["query", 5, 5] == 100
        assert found["query", 5, 1] == pytest.approx(100 / 3)  # the first of three names, whatever the text
        assert ("label_names.zoo.colour", "accuracy") in table

    def test_neighbours_come_from_the_training_folder(self, data_folder, tmp_path):
        train = tmp_path / "train"
        train.mkdir()
        rows = [
            {"text": f"a {c} {a} again", "labels": {"colour": c, "animal": a}}
            for c, a in zip(COLOURS, ANIMALS, strict=True)
        ]
        write_rows(train / "labels.zoo.jsonl", rows)
        table, _ = values_of("knn", data_folder, train_data=train, knn_sets=("zoo",))
        assert table["knn.mean", "accuracy"]["both", 5, 5] == 100
        assert table["knn.zoo.colour", "accuracy"]["both", 1, 1] == pytest.approx(100 / 3)
        with pytest.raises(DataError, match="--train-data"):
            values_of("knn", data_folder)

    @pytest.mark.filterwarnings("ignore:Number of distinct clusters")  # at one step all texts look alike
    def test_the_same_texts_cluster_as_each_instruction_says(self, data_folder):
        table, _ = values_of("clustering", data_folder)
        found = table["clustering.zoo", "v_measure"]
        assert found["both", 5, 5] == pytest.approx(100)
        assert found["none", 5, 5] < 90

    def test_a_classifier_is_judged_on_texts_it_was_not_fitted_on(self, data_folder):
        table, _ = values_of("classification", data_folder, label_sets=("zoo.colour",))
        assert table["classification.zoo.colour", "accuracy"]["both", 5, 5] == 100

    def test_retrieval_gives_every_pair_of_steps(self, data_folder):
        table, _ = values_of("retrieval", data_folder)
        found = table["retrieval.zoo", "ndcg@10"]
        assert found["query", 5, 5] == 100
        assert set(found) == {(c, k, d) for c in ("none", "query") for k in (1, 5) for d in (1, 5)}
        assert table["retrieval.zoo", "recall@100"]["none", 1, 1] == 100

    def test_ranking_metrics_by_hand(self):
        collection = RetrievalDataset(
            "c", ("x", "y", "z"), ("x", "y", "z"), ("q",), ("q",), ("",), {"q": {"y": 2, "z": 1}}
        )
        found = rank_metrics(collection, np.array([[0.9, 0.5, 0.1]]))
        ideal = 2 + 1 / math.log2(3)
        assert found["ndcg@10"] == pytest.approx([(2 / math.log2(3) + 1 / 2) / ideal], abs=1e-6)
        assert found["recall@100"] == pytest.approx([1])

    def test_bm25_finds_the_rare_word_in_any_form(self):
        scores = bm25_scores(["shipping costs", "zebra"], ["ships cost little", "the weather today", "a costly dinner"])
        assert scores[0].argmax() == 0
        assert scores[0][1] == 0
        assert not scores[1].any()


@pytest.fixture(scope="module")
def minilm():
    return MiniLmEmbedder()


class TestMiniLm:
    def test_vectors_are_those_of_sentence_transformers(self, minilm):
        """The example of the model card, and the first numbers that its authors' checkpoint gives."""
        found = EmbeddingCache(minilm, (1,)).embed(["This is an example sentence", "Each sentence is converted"])[None]
        assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1], abs=1e-5)
        assert found[0, :3] == pytest.approx([0.0677, 0.0635, 0.0487], abs=1e-4)

    def test_instructions_stand_before_the_text_as_in_our_template(self, minilm):
        written = minilm.embed(["Instruct: Which colour?\nQuery:a red dog"], instruction="", steps=())[None]
        assert minilm.embed(["a red dog"], instruction="Which colour?", steps=())[None] == pytest.approx(
            written, abs=1e-6
        )


@pytest.fixture
def tiny_model(tmp_path):
    return save_tiny_model(tmp_path / "tiny", "qwen2")


def command(model, folder, out, *more):
    options = ["--model", str(model), "--device", "cpu", "--data", str(folder), "--out", str(out), "--half", "all"]
    return [*options, "--steps", "1", "5", "--document-steps", "1", "--bootstrap", "50", *more]


class TestCommand:
    @pytest.mark.filterwarnings("ignore:.*found in sys.modules")  # the command runs what this file imports
    def test_evaluates_and_reports_end_to_end(self, tiny_model, data_folder, tmp_path, monkeypatch):
        out = tmp_path / "results.json"
        monkeypatch.setattr("sys.argv", ["gircse"])
        arguments = command(tiny_model, data_folder, out, "--tasks", "sts", "retrieval", "triplets", "--unseen", "zoo")
        assert CliRunner().invoke(app, ["eval", *arguments]).exit_code == 0
        results = read_results(out)
        assert results["settings"]["half"] == "all"
        assert len(results["model"]["fingerprint"]) == 32
        assert set(results["tasks"]) == {"sts", "retrieval", "triplets"}
        systems = {row["system"] for row in results["tasks"]["retrieval"]["scores"]}
        assert systems == {results["model"]["name"], "MiniLM", "BM25"}
        for path in [*data_folder.iterdir()]:
            path.unlink()  # the report needs the results alone
        reported = CliRunner().invoke(app, ["eval", "report", str(out), "--out", str(tmp_path / "report")])
        assert reported.exit_code == 0
        page = (tmp_path / "report" / "report.md").read_text()
        assert "| triplets.unseen | success | both sides | 5 |" in page
        for picture in ("steps-1.png", "baselines-1.png"):
            assert picture in page
            assert (tmp_path / "report" / picture).read_bytes().startswith(b"\x89PNG")

    def test_finished_tasks_are_not_measured_again(self, tiny_model, data_folder, tmp_path, capsys, caplog):
        out = tmp_path / "results.json"
        assert main(command(tiny_model, data_folder, out, "--tasks", "sts")) == 0
        results = json.loads(out.read_text())
        results["tasks"]["sts"]["seconds"] = -1  # a mark that only a new measurement would remove
        out.write_text(json.dumps(results))
        assert main(command(tiny_model, data_folder, out, "--tasks", "sts", "triplets")) == 0
        assert read_results(out)["tasks"]["sts"]["seconds"] == -1
        assert "triplets" in read_results(out)["tasks"]
        assert not [each for each in caplog.records if each.name == "bm25s"]  # which logs every step, if it is let
        assert main(command(tiny_model, data_folder, out, "--tasks", "sts", "--limit", "3")) == 1
        assert "another settings" in capsys.readouterr().err

    def test_stopping_keeps_what_is_finished(self, tiny_model, data_folder, tmp_path, monkeypatch, capsys):
        def stop(config, embedders):
            raise KeyboardInterrupt

        monkeypatch.setitem(TASKS, "triplets", stop)
        out = tmp_path / "results.json"
        assert main(command(tiny_model, data_folder, out, "--tasks", "sts", "triplets")) == 130
        assert set(read_results(out)["tasks"]) == {"sts"}
        assert "run the same command again" in capsys.readouterr().err

    def test_two_models_are_compared_item_by_item(self, tiny_model, data_folder, tmp_path):
        other = save_tiny_model(tmp_path / "other", "qwen2", seed=1)
        paths = [tmp_path / "first.json", tmp_path / "second.json"]
        for model, path in zip((tiny_model, other), paths, strict=True):
            assert main(command(model, data_folder, path, "--tasks", "label_names")) == 0
        runs = [read_results(path) for path in paths]
        found = [outcomes_from_json(run["tasks"]["label_names"]) for run in runs]
        models = tuple(run["model"]["name"] for run in runs)
        differences = compare(*found, models=models, resamples=20, seed=0)
        values = [
            {
                (row["measure"], row["condition"], row["query_steps"], row["document_steps"]): row["value"]
                for row in run["tasks"]["label_names"]["scores"]
                if row["system"] == run["model"]["name"]
            }
            for run in runs
        ]
        assert len(differences) == len(values[0]) == 18  # 3 measures, 2 conditions, 3 pairs of steps
        for each in differences:
            key = each.measure, each.setting.condition, each.setting.query_steps, each.setting.document_steps
            assert each.estimate.value == pytest.approx(values[1][key] - values[0][key], abs=2e-3)
        assert main(["report", *map(str, paths), "--out", str(tmp_path / "report")]) == 0
        assert "second minus first" in (tmp_path / "report" / "report.md").read_text()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (["--data", "nowhere"], "nowhere is not a folder"),
            (["--tasks", "knn"], "--train-data"),
            (["--steps", "-1"], "numbers must be at least 0"),
            (["--document-steps", "0"], "steps is 0, but must be a whole number from 1 to"),
            (
                ["--tasks", "triplets", "--unseen", "zoo", "zo"],
                "--unseen has the unknown sources zo. The triplets have the sources zoo.",
            ),
            (["--tasks", "paraphrased"], "holds no rows for the task paraphrased"),
        ],
    )
    def test_what_cannot_be_done_is_said_in_one_line(self, tiny_model, data_folder, tmp_path, capsys, change, message):
        assert main([*command(tiny_model, data_folder, tmp_path / "results.json"), *change]) == 1
        assert message in capsys.readouterr().err.splitlines()[-1]

    def test_a_report_of_nothing_says_what_writes_results(self, tmp_path, capsys):
        assert main(["report", str(tmp_path / "none.json"), "--out", str(tmp_path)]) == 1
        assert "gircse eval --out" in capsys.readouterr().err
