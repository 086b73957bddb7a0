"""The command line end to end: files in, hits out, over the real engine, SQLite and a tiny random model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, forget_settings, run_command
from patience import PATIENCE_S, wait_until
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM

from app.edge import EdgeProcess

GIRCSE = [sys.executable, "-P", "-c", "from app.cli import main; main()"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 of random weights with a byte-level tokenizer: somebody else's model folder without a contract."""
    folder = tmp_path_factory.mktemp("tiny-model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<eos>"])
    tokenizer.train_from_iterator(["the cat and the bank"], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = Qwen2Config(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def home(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a person with the tiny model and an empty home."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIRCSE_MODEL", str(tiny_model))
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "home"


@pytest.fixture
def engine(home: Path) -> Iterator[None]:
    """Kept up between commands, of which each would start its own."""
    with EdgeProcess(home / "edge"):
        yield


@pytest.fixture
def run(home: Path) -> Run:
    return run_command


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cat.txt").write_text("The cat sleeps on the sofa. It dreams of mice.", encoding="utf-8")
    (folder / "bank.md").write_text("# Bank\n\nThe bank raised interest rates.", encoding="utf-8")
    return folder


def hits_of(result: Any) -> dict[str, Any]:
    return {Path(hit["document"]["uri"]).name: hit for hit in json.loads(result.stdout)["hits"]}


@pytest.mark.usefixtures("engine")
def test_folder_is_ingested_searched_edited_and_deleted(run: Run, notes: Path) -> None:
    assert "2 added or updated (2 chunks), 0 unchanged, 0 failed." in run("ingest", str(notes)).stdout
    found = run("search", "cat on a sofa", "--steps", "3", "--json")
    assert list(json.loads(found.stdout)) == [
        *("query", "instruction", "steps", "collection", "hits", "refinement", "timings_ms", "mode", "values", "notes"),
        *("match", "exclusions", "searched", "read_text"),
    ]
    assert hits_of(found)["cat.txt"]["chunk"]["text"] == "The cat sleeps on the sofa. It dreams of mice."

    assert "0 added or updated (0 chunks), 2 unchanged, 0 failed." in run("ingest", str(notes)).stdout
    (notes / "cat.txt").write_text("The dog sleeps.", encoding="utf-8")
    assert "1 added or updated (1 chunks), 1 unchanged, 0 failed." in run("ingest", str(notes)).stdout
    hits = hits_of(run("search", "cat", "--json"))
    assert {name: hit["chunk"]["text"] for name, hit in hits.items()}["cat.txt"] == "The dog sleeps."
    assert len(hits) == 2

    assert hits["cat.txt"]["document"]["id"] in run("documents", "list").stdout.replace("\n", "")
    shown = json.loads(run("documents", "show", hits["cat.txt"]["document"]["id"]).stdout)
    assert (shown["state"], shown["byte_count"], shown["created_at"][-1]) == ("ready", 15, "Z")
    run("documents", "delete", hits["cat.txt"]["document"]["id"])
    run("ingest", str(notes / "bank.md"), "--wait")
    run("collections", "delete", "library", "--yes")
    assert "No collection named 'library'" in run("search", "cat", code=1).stderr


@pytest.mark.usefixtures("engine")
def test_paused_collection_takes_documents_and_says_that_they_wait(run: Run, notes: Path) -> None:
    file = notes / "cat.txt"
    run("ingest", str(file))
    assert "Paused: library." in run("jobs", "pause", "library").stdout
    file.write_text("The dog sleeps.", encoding="utf-8")
    told = run("ingest", str(file))
    assert "The collection is paused. `gircse jobs resume library` resumes its jobs." in told.stderr
    assert "1 queued, 0 unchanged." in told.stdout
    assert "Resumed: library." in run("jobs", "resume").stdout
    assert "1 added or updated (1 chunks), 0 unchanged, 0 failed." in run("ingest", str(file)).stdout
    assert "No collection named 'nope'" in run("jobs", "pause", "nope", code=1).stderr


def test_broken_files_are_told_and_the_rest_is_unharmed(run: Run, notes: Path) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    (notes / "empty.txt").write_bytes(b"")
    (notes / "junk.txt").write_bytes(bytes(range(256)) * 40)
    (notes / "nul.txt").write_bytes(b"before\x00after")
    (notes / "film.mp4").write_bytes(b"\x00\x00\x00\x18ftypmp42")
    result = run("ingest", str(notes), str(notes / "absent.txt"), code=1)
    verdicts = {"broken.pdf": "unreadable", "empty.txt": "unreadable", "absent.txt": "failed"}
    for name, verdict in (verdicts | {"junk.txt": "skipped", "film.mp4": "skipped"}).items():
        assert re.search(rf"^{verdict} +\S*{name} +\w", result.stderr, re.MULTILINE), (name, result.stderr)
    assert "3 added or updated (3 chunks), 0 unchanged, 1 failed, 4 left out." in result.stdout
    assert {"cat.txt", "bank.md"} <= set(hits_of(run("search", "cat", "--json")))
    assert "3 unchanged, 0 failed, 4 left out." in run("ingest", str(notes)).stdout  # nobody named these files
    assert "1 failed." in run("ingest", str(notes / "empty.txt"), code=1).stdout
    (notes / "cat.txt").unlink()
    assert re.search(r"^gone +\S*cat.txt +\w", run("ingest", str(notes)).stderr, re.MULTILINE)


@pytest.mark.usefixtures("engine")
def test_an_empty_folder_stops_only_pruning(run: Run, notes: Path, tmp_path: Path) -> None:
    emptied = tmp_path / "emptied"
    emptied.mkdir()
    (emptied / "eel.txt").write_text("Eels swim at night.", encoding="utf-8")
    run("ingest", str(emptied))
    (emptied / "eel.txt").unlink()
    result = run("ingest", str(emptied), str(notes))
    assert "2 added or updated (2 chunks)" in result.stdout
    assert re.search(r"^gone +\S*eel.txt +\w", result.stderr, re.MULTILINE)
    assert "Is its disk mounted?" in run("ingest", str(emptied), "--prune", "--yes", code=1).stderr


@pytest.mark.usefixtures("engine")
def test_the_only_collection_is_the_default_and_misspelt_names_get_a_suggestion(run: Run, notes: Path) -> None:
    run("ingest", str(notes / "absent.txt"), code=1)
    assert json_lines(run("collections", "list", "--json")) == []  # a run that finds nothing leaves nothing
    run("collections", "create", "letters", "--chunk-tokens", "90")
    assert "Target: letters" in run("ingest", str(notes)).stderr
    assert json.loads(run("collections", "show").stdout)["chunk_tokens"] == 90
    assert hits_of(run("search", "cat", "--json")).keys() == {"cat.txt", "bank.md"}
    run("saved", "add", "Cats", "a sleeping cat", "--mode", "dense", "--limit", "1")
    assert json_lines(run("saved", "list", "--json"))[0]["request"] == {
        "query": "a sleeping cat",
        "collection": "letters",
        "mode": "dense",
        "limit": 1,
    }
    assert len(hits_of(run("saved", "run", "Cats", "--json"))) == 1
    assert "now watches 'letters'" in run("saved", "watch", "Cats").stdout
    assert "Did you mean 'letters'?" in run("search", "cat", "-c", "leters", code=1).stderr
    assert "Did you mean 'Same feeling'?" in run("search", "cat", "--lens", "same feelng", code=1).stderr
    assert "Did you mean 'search'" in run("serch", "cat", code=2).stderr
    assert "--collection" in run("search", "cat", "--colection", "letters", code=2).stderr

    run("sources", "add", "page", "https://example.org/a", "-c", "handbook")
    assert "example.org" in run("sources", "list", "-c", "handbook").stdout
    several = run("search", "cat", code=1).stderr
    assert "There are several collections: handbook, letters. Name one with --collection NAME." in several
    assert "Name a collection." in run("optimize", code=1).stderr


def json_lines(result: Any) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_refinement_follows_boost_and_suppress(run: Run) -> None:
    def weight(word: str, *options: str) -> float:
        steps = json.loads(run("refine", "the cat", "--steps", "2", "--json", *options).stdout)["refinement"]
        return sum(token["probability"] for step in steps for token in step["tokens"] if token["token"] == word)

    assert weight("bank", "--boost", "bank") > weight("bank", "--suppress", "bank")


def test_refinement_tells_when_it_converged(run: Run) -> None:
    steps = json.loads(run("refine", "the cat", "--steps", "3", "--json").stdout)["refinement"]
    left = [step["remaining"] for step in steps]
    assert left[0] > left[1] > left[2] == 0.0
    assert re.search(r"converged at step [123] of 3", run("refine", "the cat", "--steps", "3").stdout)


def test_people_read_the_best_sentence_and_the_tokens(run: Run, notes: Path) -> None:
    run("ingest", str(notes))
    output = run("search", "cat", "--instruction", "Identify the animal").stdout
    assert "Identify the animal" in output
    assert "The cat sleeps on the sofa." in output
    assert "refinement tokens" in output


@pytest.mark.usefixtures("engine")
def test_a_lens_is_saved_used_and_deleted(run: Run, notes: Path) -> None:
    run("ingest", str(notes))
    run("lenses", "save", "the animal", "--instruction", "Identify the animal", "--note", "for zoos")
    assert "for zoos" in run("lenses", "list").stdout
    assert json.loads(run("search", "cat", "--lens", "the animal", "--json").stdout)["instruction"] == (
        "Identify the animal"
    )
    assert "not both" in run("search", "cat", "--lens", "the animal", "-i", "x", code=1).stderr
    assert "names no values" in run("lenses", "index", "build", "the animal", code=1).stderr
    run("lenses", "save", "the animal", "--instruction", "Identify the animal", "--values", "cat, dog")
    assert "Queued" in run("lenses", "index", "build", "the animal").stdout
    assert "waiting" in run("lenses", "index", "list").stdout
    assert json.loads(run("lenses", "index", "list", "--json").stdout)["values"] == ["cat", "dog"]
    run("lenses", "index", "delete", "the animal")
    run("lenses", "delete", "the animal")
    assert "No lens named 'the animal'" in run("search", "cat", "--lens", "the animal", code=1).stderr


@pytest.mark.usefixtures("engine")
def test_a_second_look_says_what_it_had_and_where_it_stood(
    run: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("ingest", str(notes))
    asked = ("search", "cat on a sofa", "-i", "Which animal is it?", "--rerank", "2")
    hits = json.loads(run(*asked, "--json").stdout)["hits"]
    assert sorted(hit["moved_from"] for hit in hits) == [1, 2]
    assert all(-1 <= hit["rerank_score"] <= 1 for hit in hits)
    assert "re-ranked 0." in run(*asked).stdout
    assert "0 to 200 candidates, not 201" in run("search", "cat", "--rerank", "201", code=1).stderr
    monkeypatch.setenv("GIRCSE_RERANK_BY", "server")
    monkeypatch.setenv("GIRCSE_RERANK_URL", "http://127.0.0.1:9/rerank")
    away = run(*asked).stdout
    assert "The hits were not re-ranked." in away.replace("\n", " ")
    assert "The cat sleeps on the sofa." in away


def test_hostile_text_cannot_steer_the_terminal(run: Run, notes: Path) -> None:
    (notes / "cat.txt").write_text("[bold]markup[/bold] \x1b[2J\x1b]0;title\x07 the end", encoding="utf-8")
    run("ingest", str(notes / "cat.txt"))
    output = run("search", "cat").stdout
    assert "[bold]markup[/bold]" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["search", "  "], 1, "The query is empty"),
        (["search", "x", "-c", "other"], 1, "No collection named 'other'"),
        (["search", "x", "--limit", "0"], 1, "1 to 100"),
        (["search", "a\x00b"], 2, "NUL"),
        (["search", "a\udcffb"], 2, "surrogate"),
        (["search", "x", "--filter", "year"], 2, "KEY=VALUE"),
        (["search", "x", "--boost", "a", "--suppress", "a"], 2, "at once"),
        (["search", "x", "--mode", "psychic"], 2, "psychic"),
        (["refine", "x", "--steps", "999"], 1, "steps"),
        (["documents", "show", "nope"], 1, "nope"),
        (["jobs", "retry", "nope"], 1, "nope"),
        (["collections", "show", "nope"], 1, "nope"),
        (["fly"], 2, "fly"),
    ],
)
def test_errors_are_one_clear_message(run: Run, arguments: list[str], code: int, told: str) -> None:
    result = run(*arguments, code=code)
    assert told in result.stderr
    assert "Traceback" not in result.output


def test_errors_of_settings_are_told_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_PORT", "seven")
    monkeypatch.setenv("GIRCSE_LEASE_S", "0")
    result = run("documents", "list", code=1)
    assert "GIRCSE_PORT" in result.stderr
    assert "GIRCSE_LEASE_S" in result.stderr


def test_model_that_is_not_there_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIRCSE_MODEL", str(tmp_path / "no-model"))
    assert "no-model" in run("refine", "x", code=1).stderr


@pytest.mark.usefixtures("engine")
def test_doctor_finds_everything_well_and_then_the_wrong_model(
    run: Run, notes: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run("ingest", str(notes))
    assert "FAIL" not in run("doctor").stdout
    other = tmp_path / "other-model"
    Qwen2ForCausalLM(Qwen2Config.from_pretrained(tiny_model)).save_pretrained(other)
    (other / "tokenizer.json").write_bytes((tiny_model / "tokenizer.json").read_bytes())
    monkeypatch.setenv("GIRCSE_MODEL", str(other))
    assert "embedded by another model: library" in run("doctor", code=1).stdout.replace("\n", " ")
    assert "GIRCSE_MODEL" in run("search", "cat", code=1).stderr


@pytest.fixture
def running_up(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`gircse up` as a process, and its address."""
    with subprocess.Popen([*GIRCSE, "up", "--port", "0"], stdout=subprocess.PIPE, text=True, umask=0o022) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://[\d.:]+", line)
            assert address, line
            yield process, address.group()
        finally:
            process.kill()


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read()


def test_up_serves_works_shares_its_home_and_stops_cleanly(
    running_up: tuple[subprocess.Popen[str], str], run: Run, notes: Path, home: Path
) -> None:
    process, url = running_up
    assert json.loads(ask(f"{url}/readyz"))["checks"] == dict.fromkeys(
        ("catalog", "index", "embedder", "integrity", "worker"), True
    )
    assert b"gircse" in ask(f"{url}/")
    # A second process finds the engine and the worker of the first.
    assert "2 added or updated" in run("ingest", str(notes)).stdout
    by_http = json.loads(ask(f"{url}/api/v1/search", {"query": "cat on a sofa", "steps": 3}))
    by_command = json.loads(run("search", "cat on a sofa", "--steps", "3", "--json").stdout)
    for result in (by_http, by_command):
        result.pop("timings_ms")
    assert by_http == by_command

    assert (home / "gradio").is_dir()  # no folder that all users of the machine share
    assert [path for path in (home, *home.rglob("*")) if path.lstat().st_mode & 0o077] == []

    engine = json.loads((home / "edge" / "edge.json").read_text())["pid"]
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    wait_until(lambda: not _is_running(engine))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
