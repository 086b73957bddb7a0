"""The shipped default, and a model of one step made of it: what both read under an instruction, and how they are
served. Golden vectors are checked when the default is loaded."""

from contextlib import closing

import numpy as np
import pytest
from one_step_model import save_one_step_model
from starlette.testclient import TestClient

from app.wiring.embedding import LocalEmbedder
from app.wiring.web import open_web
from embedder import GircseEmbeddings, load_encoder

TEXT, INSTRUCTION = "Please move my appointment to Thursday afternoon.", "Represent the intention of this text."
FEELS = "What does the writer feel?"


@pytest.fixture(scope="module")
def one_step(tmp_path_factory):
    """The folder of a model without soft tokens."""
    return str(save_one_step_model(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module", params=["gircse-small", "one step"])
def model(request, one_step):
    return one_step if request.param == "one step" else request.param


@pytest.fixture(scope="module")
def encoder(model):
    return load_encoder(model, dtype="float32")


def test_documents_without_an_instruction_are_those_of_the_base_that_gircse_mini_has(encoder):
    plain = load_encoder("gircse-mini", dtype="float32").encode_documents([TEXT], steps=0)[0]
    for vector in (encoder.encode_documents([TEXT])[0], encoder.encode_queries([TEXT], steps=0)[0]):
        np.testing.assert_allclose(vector, plain, atol=1e-6)


def test_two_texts_that_share_what_is_asked_for_are_nearer_than_two_that_share_the_subject(encoder):
    texts = [
        "I am so glad that the train came.",
        "What a happy day at the office!",
        "I am furious that the train came.",
    ]
    query, alike, other = encoder.encode_queries(texts, instruction=FEELS)
    plain, plain_alike, plain_other = encoder.encode_documents(texts)
    assert query @ alike > query @ other
    assert plain @ plain_alike < plain @ plain_other


@pytest.mark.parametrize(
    ("instruction", "query", "agrees", "differs"),
    [
        (
            "Identify the country the text is about.",
            "Sushi is eaten all over Japan.",
            "Tokyo has more people than any other city of Japan.",
            "Fishing feeds most families of Peru.",
        ),
        (FEELS, "I am so glad that the train came.", "What a happy day!", "I am furious that the train came."),
        (
            "Given a question, retrieve the passage that answers it.",
            "How long does a passport last?",
            "An adult passport is valid for ten years.",
            "Bake the bread for forty minutes.",
        ),
    ],
)
def test_the_bounds_separate_agreeing_texts_under_every_instruction(instruction, query, agrees, differs):
    encoder = load_encoder("gircse-small", dtype="float32")
    fair, strong = encoder.info.match_cosines
    asked, near, far = encoder.encode_queries([query, agrees, differs], instruction=instruction, steps=1)
    assert asked @ near >= fair
    assert asked @ far < fair < strong


def test_texts_of_a_batch_leave_each_other_alone(encoder):
    read = encoder.encode_queries([TEXT], instruction=INSTRUCTION)[0]
    both = encoder.encode_queries([TEXT, TEXT * 9, "a"], instruction=INSTRUCTION)
    np.testing.assert_allclose(both[0], read, atol=1e-5)


def test_langchain_embeds_documents_plainly_and_queries_under_their_instruction(model, encoder):
    embeddings = GircseEmbeddings(model=model, query_instruction=INSTRUCTION, dtype="float32")
    np.testing.assert_allclose(embeddings.embed_documents([TEXT])[0], encoder.encode_documents([TEXT])[0], atol=1e-6)
    asked = encoder.encode_queries([TEXT], instruction=INSTRUCTION)[0]
    np.testing.assert_allclose(embeddings.embed_query(TEXT), asked, atol=1e-6)


def test_one_step_is_the_reading_that_soft_tokens_are_added_to(one_step):
    reading, whole = (load_encoder(each, dtype="float32") for each in (one_step, "gircse-small"))
    assert reading.max_steps == 1
    read = reading.refine(TEXT, instruction=INSTRUCTION)
    assert read.steps == ()
    assert 0.2 < read.vector @ reading.encode_documents([TEXT])[0] < 0.95
    np.testing.assert_allclose(reading.encode_queries([TEXT])[0], reading.encode_documents([TEXT])[0], atol=1e-6)
    refined = whole.refine(TEXT, instruction=INSTRUCTION, steps=3)
    assert len(refined.steps) == 3
    assert 0.7 < refined.vector @ read.vector < 0.99


@pytest.fixture
def application(toy_services_factory, one_step):
    embedder = LocalEmbedder(one_step, device="cpu", dtype="float32")
    with closing(embedder):
        yield toy_services_factory(embedder=embedder)


def test_documents_without_an_instruction_are_plain_at_whatever_steps(application, one_step):
    embed = application.services.embedder.embed_documents
    expected = load_encoder(one_step, dtype="float32").encode_documents([TEXT])
    for steps in (0, 1):
        found = np.asarray(embed([TEXT], instruction="", steps=steps))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_it_is_searched_under_an_instruction_and_its_pages_leave_out_the_steps(application):
    for text in ("What a happy day at the office!", "I hate it that the train came.", "The train came at nine."):
        application.add(text)
    with open_web(application.services) as web, TestClient(web, base_url="http://127.0.0.1") as client:
        asked = {"query": "I am glad that the train came.", "collection": "library", "limit": 1}
        plain, read = (
            client.post("/api/v1/search", json={**asked, "instruction": instruction}).json()
            for instruction in ("", FEELS)
        )
        fields = {each["props"].get("elem_id"): each["props"] for each in client.get("/config").json()["components"]}
    assert [found["hits"][0]["chunk"]["text"] for found in (plain, read)] == [
        "I hate it that the train came.",
        "What a happy day at the office!",
    ]
    assert read["refinement"] == []
    hidden = fields["steps-slider"]
    assert (hidden["visible"], hidden["value"], fields["limit"]["visible"]) == (False, 1, True)
