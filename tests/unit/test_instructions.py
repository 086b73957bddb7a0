"""The instruction registry against lines of the paper's Tables 11 and 12."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter

import pytest
from patience import PATIENCE_S

from embedder.text.instructions import UnknownTaskError, instruction_for, load_instructions

INTENT_EMOTION_AND_NYT_ROWS = 4  # Table 12; the other 91 are Table 11
PAPER_SHA256 = (
    "97e3becda624429b05c9a1b80bd4fc6ee4e8ccb4c9bd765873b745221d2f1da2"  # of all 95 "task<TAB>instruction" lines
)


def test_registry_has_the_95_rows_of_both_tables() -> None:
    rows = load_instructions()
    in_table_12 = [row for row in rows if row.task.startswith(("IntentEmotion (", "NYTClustering ("))]
    assert len(rows) == 95
    assert rows[-INTENT_EMOTION_AND_NYT_ROWS:] == tuple(in_table_12)
    assert len({row.task for row in rows}) == 95


@pytest.mark.parametrize(
    ("task", "instruction"),
    [
        ("SummEvalSummarization", "Given a news summary, retrieve other semantically similar summaries."),
        ("AmazonPolarityClassification", "Classify Amazon reviews into positive or negative sentiment."),
        (
            "EmotionClassification",
            "Classify the emotion expressed in the given Twitter message into one of the six emotions: "
            "anger, fear, joy, love, sadness, and surprise.",
        ),
        ("MTOPIntentClassification", "Classify the intent of the given utterance in task-oriented conversation."),
        ("HotpotQA-Q", "Given a multi-hop question, retrieve documents that can help answer the question."),
        ("ArguAna-Q", "Given a claim, find documents that refute the claim."),
        ("SCIDOCS-Q", "Given a scientific paper title, retrieve paper abstracts that are cited by the given paper."),
        ("STSBenchmark", "Retrieve semantically similar text."),
        (
            "CQADupstackWordpressRetrieval-C",
            "Represent the question title with body posted by a user to find a duplicate user question title "
            "from the Wordpress StackExchange forum.",
        ),
        ("IntentEmotion (Emotion)", "Represent the emotion of this text."),
        ("NYTClustering (Location)", "Represent the text based on where the news happen."),
    ],
)
def test_row_is_the_paper_s_to_the_byte(task: str, instruction: str) -> None:
    assert [row.instruction for row in load_instructions() if row.task == task] == [instruction]


def test_all_rows_are_the_paper_s_to_the_byte() -> None:
    table = "\n".join(f"{row.task}\t{row.instruction}" for row in load_instructions())
    assert hashlib.sha256(table.encode("utf-8")).hexdigest() == PAPER_SHA256


def test_role_follows_from_the_suffix() -> None:
    suffixes = {"query": "-Q", "document": "-C"}
    for row in load_instructions():
        assert row.task.endswith(suffixes[row.role]) if row.role in suffixes else not row.task.endswith(("-Q", "-C"))
    assert Counter(row.role for row in load_instructions()) == {"both": 44, "query": 35, "document": 16}


def test_task_is_found_with_and_without_its_suffix() -> None:
    query = "Represent the title of a user question to find a duplicate user question title with body from the Tex "
    assert instruction_for("CQADupstackTexRetrieval-Q", "query") == f"{query}StackExchange forum."
    assert instruction_for("CQADupstackTexRetrieval", "query") == f"{query}StackExchange forum."
    assert instruction_for("CQADupstackTexRetrieval", "document") != f"{query}StackExchange forum."


def test_instruction_for_both_sides_serves_either() -> None:
    assert instruction_for("STS12", "query") == instruction_for("STS12", "document") == instruction_for("STS12", "both")


def test_corpus_of_a_query_only_dataset_has_no_instruction() -> None:
    assert instruction_for("NFCorpus", "query") == (
        "Given a question, retrieve relevant documents that best answer the question."
    )
    assert instruction_for("NFCorpus", "document") is None


def test_unknown_task_is_refused_with_near_names() -> None:
    with pytest.raises(UnknownTaskError, match=r"'banking77classificaton'.*Did you mean .*Banking77Classification"):
        instruction_for("banking77classificaton", "query")
    with pytest.raises(UnknownTaskError, match=r"load_instructions\(\)"):
        instruction_for("0000", "query")


def test_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'corpus'.*query, document, both"):
        instruction_for("STS12", "corpus")  # type: ignore[arg-type]


def test_import_opens_no_registry_file() -> None:
    opened = (
        "import sys; seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event == 'open' else None)\n"
        "import embedder.text.instructions as module\n"
        "assert not [path for path in seen if path.endswith('instructions.json')], seen\n"
        "module.load_instructions()\n"
        "assert [path for path in seen if path.endswith('instructions.json')]\n"
    )
    subprocess.run([sys.executable, "-c", opened], check=True, timeout=PATIENCE_S)
