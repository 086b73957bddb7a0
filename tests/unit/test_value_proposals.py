"""Proposed values: from the bank, from metadata, from the model's words; what fits no text is never first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from api_application import api_of
from fastapi.testclient import TestClient

from app.errors import InputError, UnknownCollectionError
from app.search.aspect_search import AspectSearch, embed_plainly
from app.search.aspects import BankAspect
from app.search.judgements import new_lens
from app.search.value_proposals import ValueProposer
from app.search.value_words import values_of_words
from app.testing import ToyEmbedder
from app.types.proposals import MAX_INSTRUCTION_CHARACTERS, ProposalSource
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep, RefinementToken

BANK = (
    BankAspect("animal", ("Which animal is it?", "Which animal it is", "is it which animal"), ("cat", "dog", "horse")),
    BankAspect(
        "vehicle",
        ("Which vehicle is it?", "the kind of vehicle", "kind of vehicle, the", "of the vehicle kind"),
        ("boat", "train", "bicycle"),
    ),
    BankAspect("pet", ("Which animal is kept?", "somebody keeps it"), ("dog", "cat", "horse", "parrot")),
)
TEXTS = ("the cat sleeps", "a cat plays", "the dog barks", "a horse runs", "a dog eats", "my horse and a cart")


@pytest.fixture
def zoo(toy_services: Any) -> Any:
    for at, text in enumerate(TEXTS):
        toy_services.add(text, metadata={"mood of it": ("calm", "wild")[at % 2], "year": 2020 + at, "shelf": "a1"})
    return toy_services


def proposer_over(application: Any, bank: tuple[BankAspect, ...] = BANK) -> ValueProposer:
    services = application.services
    aspects = AspectSearch(application.embedder, bank)
    return ValueProposer(services.catalog, services.index, application.embedder, bank=aspects)


def test_the_nearest_wording_finds_its_aspect_and_the_bank_is_embedded_once(zoo: Any) -> None:
    search = AspectSearch(zoo.embedder, BANK)
    [asked] = embed_plainly(zoo.embedder, ["the kind of vehicle"])
    assert [(each.aspect.name, round(each.similarity, 3)) for each in search.nearest(asked, 1)] == [("vehicle", 1.0)]
    zoo.embedder.embedded_texts.clear()
    assert [each.aspect.name for each in search.nearest(asked, 3)][:2] == ["vehicle", "animal"]
    assert zoo.embedder.embedded_texts == []


def test_proposals_of_the_bank_come_first_and_say_how_many_texts_fit(zoo: Any) -> None:
    first, *_ = proposer_over(zoo).propose("Which animal is it?", "library")
    assert (first.source, first.name, first.values) == (ProposalSource.BANK, "animal", ("cat", "dog", "horse"))
    assert first.similarity == pytest.approx(1.0)
    assert (first.fitting, first.texts) == (len(TEXTS), len(TEXTS))


def test_what_fits_no_text_is_left_out_however_near_its_wording_is(zoo: Any) -> None:
    found = proposer_over(zoo).propose("Which vehicle is it?", "library")
    assert "vehicle" not in {each.name for each in found}
    assert all(each.fitting for each in found)


def test_the_same_values_are_proposed_once(zoo: Any) -> None:
    names = [each.name for each in proposer_over(zoo).propose("Which animal is it?", "library")]
    assert "pet" not in names


def test_metadata_is_proposed_where_its_key_means_the_instruction(zoo: Any) -> None:
    found = proposer_over(zoo, bank=BANK[:1]).propose("the mood of it", "library")
    assert [(each.source, each.name, set(each.values)) for each in found if each.source is ProposalSource.METADATA] == [
        (ProposalSource.METADATA, "mood of it", {"calm", "wild"})
    ]
    for key in ("year", "shelf"):  # numbers, and one value alone
        assert key not in {each.name for each in proposer_over(zoo).propose(f"the {key} of it", "library")}


def test_an_empty_collection_gets_the_bank_by_its_wordings(toy_services: Any) -> None:
    toy_services.services.library.ensure_collection("library")
    first, *_ = proposer_over(toy_services).propose("the kind of vehicle", "library")
    assert (first.name, first.fitting, first.texts) == ("vehicle", 0, 0)


def refinement(*words: str) -> Refinement:
    tokens = tuple(RefinementToken(word, 0.1) for word in words)
    return Refinement("text", "", np.zeros(1), (RefinementStep(1, tokens),))


def test_words_of_one_sense_are_one_value_and_words_of_every_text_none() -> None:
    texts = [refinement("place", "africa", "african"), refinement("place", "africa", "african")]
    texts += [refinement("place", "asia", "the"), refinement("place", "asia", "##ern"), refinement("place", "once")]

    def embed(words: list[str]) -> np.ndarray:
        return np.asarray([[1.0, 0.0] if word.startswith("af") else [0.0, 1.0] for word in words])

    assert values_of_words(texts, embed) == ("africa = african", "asia")
    assert values_of_words([], embed) == ()


def test_the_models_words_on_the_texts_are_the_last_source(toy_services_factory: Any) -> None:
    application = toy_services_factory("words")
    for text in ("apple apple red", "apple apple green", "plum plum red", "plum plum blue", "stone"):
        application.add(text)
    found = proposer_over(application, bank=BANK[1:2]).propose("fruit", "library")
    assert {each.source for each in found} == {ProposalSource.TEXTS}
    assert {"apple", "plum"} <= set(found[0].values)
    assert found[0].similarity is None


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [("  ", "empty"), ("x" * (MAX_INSTRUCTION_CHARACTERS + 1), "2,001 characters"), ("a\x00b", "NUL")],
)
def test_what_is_no_instruction_is_refused(zoo: Any, instruction: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        proposer_over(zoo).propose(instruction, "library")


def test_a_lens_with_values_is_proposed_where_it_means_the_instruction(zoo: Any) -> None:
    lens = new_lens("kinds", "Which beast is it, then?", values=["cat = kitten", "dog", "horse"])
    zoo.services.catalog.save_lens(lens)
    first, *_ = proposer_over(zoo, bank=BANK[1:2]).propose("Which beast is it, then? kinds cat dog horse", "library")
    assert (first.source, first.name, first.values) == (ProposalSource.LENS, "kinds", ("cat = kitten", "dog", "horse"))


def test_an_unknown_collection_is_said_so(zoo: Any) -> None:
    with pytest.raises(UnknownCollectionError):
        proposer_over(zoo).propose("Which animal is it?", "elsewhere")


def test_over_http(zoo: Any) -> None:
    client = TestClient(api_of(zoo.services))
    asked = {"instruction": "the mood of it", "collection": "library"}
    found = client.post("/api/v1/lenses/proposals", json=asked).json()["proposals"]
    assert 1 <= len(found) <= 3
    assert all(each["texts"] == len(TEXTS) and each["fitting"] for each in found)
    assert {"source": "metadata", "name": "mood of it"}.items() <= found[-1].items()
    for wrong in ({"instruction": ""}, {"instruction": "x" * 2001}, {"more": 1}):
        assert client.post("/api/v1/lenses/proposals", json=asked | wrong).status_code == 422
    assert client.post("/api/v1/lenses/proposals", json=asked | {"collection": "gone"}).status_code == 404


def test_a_toy_model_without_plain_vectors_takes_its_least_steps() -> None:
    assert embed_plainly(ToyEmbedder(), []).shape == (0, 256)
