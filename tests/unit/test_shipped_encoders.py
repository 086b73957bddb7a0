"""The shipped encoder whose base comes with the package: its golden vectors are checked when it is loaded."""

from contextlib import closing

import numpy as np
import pytest
from starlette.testclient import TestClient

from app.wiring.embedding import LocalEmbedder
from app.wiring.web import open_web
from embedder import GircseEmbeddings, load_encoder

TEXT, INSTRUCTION = "Please move my appointment to Thursday afternoon.", "Represent the intention of this text."


@pytest.fixture(scope="module")
def small():
    return load_encoder("gircse-small", dtype="float32")


def test_without_an_instruction_it_is_the_base_that_gircse_mini_has(small):
    plain = load_encoder("gircse-mini", dtype="float32").encode_documents([TEXT], steps=0)[0]
    for vector in (small.encode_documents([TEXT])[0], small.encode_queries([TEXT])[0]):
        np.testing.assert_allclose(vector, plain, atol=1e-6)


def test_under_an_instruction_the_adapter_reads_the_text_in_one_pass(small):
    read = small.encode_queries([TEXT], instruction=INSTRUCTION)[0]
    assert small.max_steps == 1
    assert 0.2 < read @ small.encode_documents([TEXT])[0] < 0.95
    assert small.refine(TEXT, instruction=INSTRUCTION).steps == ()
    # Texts of one batch, with an instruction and of other lengths, leave each other alone.
    both = small.encode_queries([TEXT, TEXT * 9, "a"], instruction=INSTRUCTION)
    np.testing.assert_allclose(both[0], read, atol=1e-5)


def test_two_texts_that_share_what_is_asked_for_are_nearer_than_two_that_share_the_subject(small):
    asked = "What does the writer feel?"
    texts = [
        "I am so glad that the train came.",
        "What a happy day at the office!",
        "I am furious that the train came.",
    ]
    query, alike, other = small.encode_queries(texts, instruction=asked)
    plain, plain_alike, plain_other = small.encode_documents(texts)
    assert query @ alike > query @ other
    assert plain @ plain_alike < plain @ plain_other


def test_langchain_embeds_documents_plainly_and_queries_under_their_instruction(small):
    embeddings = GircseEmbeddings(model="gircse-small", query_instruction=INSTRUCTION, dtype="float32")
    np.testing.assert_allclose(embeddings.embed_documents([TEXT])[0], small.encode_documents([TEXT])[0], atol=1e-6)
    asked = small.encode_queries([TEXT], instruction=INSTRUCTION)[0]
    np.testing.assert_allclose(embeddings.embed_query(TEXT), asked, atol=1e-6)


@pytest.fixture
def application(toy_services_factory):
    embedder = LocalEmbedder("gircse-small", device="cpu", dtype="float32")
    with closing(embedder):
        yield toy_services_factory(embedder=embedder)


def test_documents_without_an_instruction_are_plain_at_whatever_steps(application, small):
    embed = application.services.embedder.embed_documents
    for steps in (0, 1):
        found = np.asarray(embed([TEXT], instruction="", steps=steps))
        np.testing.assert_allclose(found, small.encode_documents([TEXT]), atol=1e-5)


def test_it_is_searched_under_an_instruction_and_its_pages_leave_out_the_steps(application):
    for text in ("What a happy day at the office!", "I hate it that the train came.", "The train came at nine."):
        application.add(text)
    with open_web(application.services) as web, TestClient(web, base_url="http://127.0.0.1") as client:
        asked = {"query": "I am glad that the train came.", "collection": "library", "limit": 1}
        plain, read = (
            client.post("/api/v1/search", json={**asked, "instruction": instruction}).json()
            for instruction in ("", "What does the writer feel?")
        )
        fields = {each["props"].get("elem_id"): each["props"] for each in client.get("/config").json()["components"]}
    assert [found["hits"][0]["chunk"]["text"] for found in (plain, read)] == [
        "I hate it that the train came.",
        "What a happy day at the office!",
    ]
    assert read["refinement"] == []
    hidden = fields["steps-slider"]
    assert (hidden["visible"], hidden["value"], fields["limit"]["visible"]) == (False, 1, True)
