"""The page of a hit is that of its sentence, wherever its passage begins."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from sample_files import pdf

from app.answers.service import on_pages_of
from app.search.export import search_csv
from app.testing import text_source
from app.types.answers import AnswerRequest, AnswerSentence, Passage
from app.types.search import SearchMode, SearchRequest

# A sentence runs over each end of a page, so that no page is complete.
PAGES = (
    "Lanterns hang over the quay at night. Ropes are coiled by the",
    "sailors who wait for the tide. Gulls circle above the market and the",
    "fishing boats. Barrels of herring stand along the wall beside the",
    "old customs hall. Bells call the pilots to the tower at noon.",
)
SENTENCES = {
    "Lanterns hang over the quay at night.": 1,
    "Ropes are coiled by the": 1,
    "Gulls circle above the market and the": 2,
    "Barrels of herring stand along the wall beside the": 3,
    "Bells call the pilots to the tower at noon.": 4,
}


@pytest.fixture(params=[True, False], ids=["structure", "tokens"])
def services(request: pytest.FixtureRequest, toy_services: Any) -> Any:
    services = toy_services.services
    services.library.create_collection("library", chunk_structure=request.param)
    services.library.add_document("library", text_source("a.pdf", pdf(*PAGES), media_type="application/pdf"))
    toy_services.work_off()
    return services


@pytest.mark.parametrize("mode", [SearchMode.DENSE, SearchMode.SPARSE, SearchMode.HYBRID])
def test_the_page_is_that_of_the_sentence(services: Any, mode: SearchMode) -> None:
    for sentence, page in SENTENCES.items():
        result = services.search.search(SearchRequest(query=sentence, collection="library", mode=mode))
        hit = result.hits[0]
        assert len(hit.chunk.page_starts) == len(PAGES)  # one passage on all pages
        assert (hit.chunk.text[hit.why.start :][: len(sentence)], hit.chunk.page) == (sentence, page)
        assert services.search.highlight(result).hits[0].chunk.page == page  # however often it is asked
        (row,) = csv.DictReader(io.StringIO(search_csv(result)))
        assert row["page"] == str(page)
    without = services.search.search(SearchRequest(query=sentence, collection="library", mode=mode), highlight=False)
    assert without.hits[0].chunk.page == 1  # where no sentence is known


def test_rest_says_that_page_and_keeps_its_own_keys_to_itself(services: Any) -> None:
    with TestClient(api_of(services)) as client:
        body = {"query": "Bells call the pilots to the tower at noon.", "collection": "library"}
        (hit,) = client.post("/api/v1/search", json=body).json()["hits"]
    assert hit["chunk"]["page"] == 4
    assert "page_starts" not in hit["chunk"]
    assert "page_starts" not in hit["document"]["metadata"]


def test_an_answer_says_the_page_of_the_sentence_that_it_quotes(services: Any) -> None:
    hit = services.search.search(SearchRequest(query="Lanterns hang over the quay", collection="library")).hits[0]
    passages = (Passage(1, hit.document, hit.chunk), Passage(2, hit.document, hit.chunk))
    start = hit.chunk.text.index("Barrels")
    sentences = [AnswerSentence("Barrels …", (1,), start=start), AnswerSentence("Lanterns …", (1,), start=0)]
    found = on_pages_of(passages, [*sentences, AnswerSentence("In its own words.", (2,))])
    assert [each.chunk.page for each in found] == [3, 1]
    answer = services.answers.answer(AnswerRequest("Where do Bells call the pilots to the tower at noon?", "library"))
    for sentence in answer.sentences:
        page = answer.passages[sentence.citations[0] - 1].chunk.page
        assert sentence.text not in SENTENCES or page == SENTENCES[sentence.text]
    assert answer.is_answered
