"""The mteb wrapper through mteb's own evaluation, on tasks that are made in memory."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from tiny_models import family_encoder, save_tiny_model

from embedder.encoder import Encoder
from embedder.evaluation.pmrr import p_mrr

mteb = pytest.importorskip("mteb", reason="needs the extra [mteb]")

from datasets import Dataset, DatasetDict  # noqa: E402
from mteb._evaluators.retrieval_metrics import evaluate_p_mrr_change  # noqa: E402
from mteb.abstasks import AbsTaskRetrieval, AbsTaskSTS  # noqa: E402
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.models.models_protocols import EncoderProtocol  # noqa: E402
from mteb.types import PromptType  # noqa: E402

from embedder.evaluation.mteb_wrapper import GircseMteb  # noqa: E402

PAIRS = [
    ("a red apple", "an apple that is red", 5.0),
    ("the train is late", "trains do not run on time", 3.0),
    ("we sail at dawn", "he sold his car", 0.0),
    ("bread and butter", "a slice of bread", 2.0),
]
DOCUMENTS = {
    "d1": "The council raised the tax on fuel.",
    "d2": "Farmers protested against the tax on fuel.",
    "d3": "A recipe for bread.",
}
QUESTION = "tax on fuel"
INSTRUCTIONS = {"q1-og": "Find news about the tax.", "q1-changed": "Find news about the tax, but not about protests."}
MADE_IRRELEVANT = {"q1": ["d2"]}


def task_metadata(**changes) -> TaskMetadata:
    values = {
        "name": "InMemory",
        "description": "Made in memory.",
        "dataset": {"path": "none", "revision": "none"},
        "type": "STS",
        "category": "t2t",
        "modalities": ["text"],
        "eval_splits": ["test"],
        "eval_langs": ["eng-Latn"],
        "main_score": "cosine_spearman",
    }
    return TaskMetadata(**{**values, **changes})


class Similarity(AbsTaskSTS):
    metadata = task_metadata(name="InMemorySimilarity", prompt="Find what means the same.")
    min_score, max_score = 0, 5

    def load_data(self, **_) -> None:
        first, second, scores = zip(*PAIRS, strict=True)
        rows = {"sentence1": list(first), "sentence2": list(second), "score": list(scores)}
        self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
        self.data_loaded = True


class InstructedRanking(AbsTaskRetrieval):
    """FollowIR's layout: one question under an original and a changed instruction."""

    metadata = task_metadata(name="InMemoryRanking", type="InstructionReranking", main_score="p-MRR")

    def load_data(self, **_) -> None:
        queries = [{"id": name, "text": QUESTION, "instruction": each} for name, each in INSTRUCTIONS.items()]
        corpus = [{"id": name, "title": "", "text": text} for name, text in DOCUMENTS.items()]
        split = RetrievalSplitData(
            queries=Dataset.from_list(queries),
            corpus=Dataset.from_list(corpus),
            relevant_docs={"q1-og": {"d1": 1, "d2": 1}, "q1-changed": {"d1": 1, "d2": 0}},
            top_ranked={name: list(DOCUMENTS) for name in INSTRUCTIONS},
        )
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True

    def task_specific_scores(self, scores, qrels, results, hf_split, hf_subset) -> dict:
        return evaluate_p_mrr_change(qrels, results, MADE_IRRELEVANT, self.k_values)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Encoder:
    return family_encoder(save_tiny_model(tmp_path_factory.mktemp("model"), "qwen2"))


def scores_of(model: GircseMteb, task) -> dict:
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    return result.task_results[0].scores["test"][0]


def test_serves_the_protocol(encoder: Encoder) -> None:
    model = GircseMteb(encoder)
    assert isinstance(model, EncoderProtocol)
    assert model.mteb_model_meta.revision == encoder.fingerprint
    assert model.mteb_model_meta.embed_dim == encoder.dimension


def test_similarity_equals_the_encoder_s_own_vectors(encoder: Encoder) -> None:
    found = scores_of(GircseMteb(encoder, query_steps=3), Similarity())["cosine_spearman"]
    first, second = (
        encoder.encode_queries([pair[side] for pair in PAIRS], instruction="Find what means the same.", steps=3)
        for side in (0, 1)
    )
    expected = spearmanr(np.sum(first * second, axis=1), [pair[2] for pair in PAIRS]).statistic
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_query_s_own_instruction_is_its_instruction(encoder: Encoder) -> None:
    model = GircseMteb(encoder, query_steps=4, document_steps=2)
    documents = encoder.encode_documents(list(DOCUMENTS.values()), instruction="", steps=2)
    runs = {}
    for name, instruction in INSTRUCTIONS.items():
        query = encoder.encode_queries([QUESTION], instruction=instruction, steps=4)[0]
        runs[name] = {"q1": dict(zip(DOCUMENTS, (documents @ query).tolist(), strict=True))}
    expected = p_mrr(runs["q1-og"], runs["q1-changed"], MADE_IRRELEVANT)
    scores = scores_of(model, InstructedRanking())
    assert scores["p-MRR"] == pytest.approx(expected, abs=1e-6)

    batch = {
        "text": [f"{QUESTION} {INSTRUCTIONS['q1-og']}"],
        "query": [QUESTION],
        "instruction": [INSTRUCTIONS["q1-og"]],
    }
    found = encode(model, [batch], prompt_type=PromptType.query)
    np.testing.assert_allclose(
        found, encoder.encode_queries([QUESTION], instruction=INSTRUCTIONS["q1-og"], steps=4), atol=1e-5
    )


def encode(model: GircseMteb, batches: list[dict], *, prompt_type: PromptType | None) -> np.ndarray:
    return model.encode(
        batches,
        task_metadata=InstructedRanking.metadata,
        hf_split="test",
        hf_subset="default",
        prompt_type=prompt_type,
    )


def test_an_instruction_that_is_too_long_stays_in_the_text(encoder: Encoder, caplog) -> None:
    narrative = "Relevant news name the tax and its amount. " * 20
    text = f"{QUESTION} {narrative}"
    model = GircseMteb(encoder, query_steps=2)
    found = encode(
        model, [{"text": [text], "query": [QUESTION], "instruction": [narrative]}], prompt_type=PromptType.query
    )
    expected = encoder.encode_queries([text], instruction="Retrieve text based on user query.", steps=2)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert "1 of 1 queries have an instruction" in caplog.text


def test_an_empty_document_has_a_vector(encoder: Encoder) -> None:
    found = encode(GircseMteb(encoder, document_steps=2), [{"text": ["", "bread"]}], prompt_type=PromptType.document)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1:], encoder.encode_documents(["bread"], instruction="", steps=2), atol=1e-5)


@pytest.mark.parametrize(
    ("task", "prompt_type", "expected"),
    [
        ("Banking77Classification.v2", None, "Given an online banking query, find the corresponding intents."),
        ("ArguAna", PromptType.query, "Given a claim, find documents that refute the claim."),
        ("ArguAna", PromptType.document, ""),
        ("AskUbuntuDupQuestions", PromptType.document, "Retrieve duplicate questions from AskUbuntu forum."),
        ("Core17InstructionRetrieval", PromptType.query, "Retrieve text based on user query."),
        ("Core17InstructionRetrieval", PromptType.document, ""),
    ],
)
def test_instructions_come_from_the_paper_then_the_benchmark(
    encoder: Encoder, task: str, prompt_type: PromptType | None, expected: str
) -> None:
    assert GircseMteb(encoder).instruction_of(mteb.get_task(task).metadata, prompt_type) == expected


def test_given_instructions_come_first(encoder: Encoder) -> None:
    model = GircseMteb(
        encoder, instructions={"ArguAna": "Argue.", "SciFact": {"query": "Check.", "document": "Represent the study."}}
    )
    argu_ana, sci_fact = (mteb.get_task(name).metadata for name in ("ArguAna", "SciFact"))
    assert model.instruction_of(argu_ana, PromptType.query) == "Argue."
    assert model.instruction_of(argu_ana, PromptType.document) == ""
    assert model.instruction_of(sci_fact, PromptType.document) == "Represent the study."


def test_results_of_other_settings_are_cached_apart(encoder: Encoder) -> None:
    models = [
        GircseMteb(encoder, query_steps=5),
        GircseMteb(encoder, query_steps=20),
        GircseMteb(encoder, query_steps=20, instructions={"ArguAna": "Argue."}),
    ]
    assert len({model.mteb_model_meta.experiment_name for model in models}) == 3
