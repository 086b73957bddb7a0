"""Few passages of one document: others come in their place, as far as there are any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from app.errors import InputError
from app.testing import ToyEmbedder, text_source
from app.types.search import Hit, SearchMode, SearchRequest
from app.types.values import LensValue

LONG = "\n\n".join(f"The ferry number {number} came late on the river." for number in range(12))
OTHERS = [f"A ferry of town {number}, seen by many people." for number in range(4)]


@pytest.fixture(scope="module")
def services(toy_services_class: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One long document has all of the nearest passages."""
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("grouping"), opened, embedder=ToyEmbedder())
        toy.services.library.create_collection("library", chunk_tokens=16, chunk_overlap=0)
        for number, text in enumerate([LONG, *OTHERS]):
            toy.services.library.add_document("library", text_source(f"text://{number}", text))
        toy.work_off()
        yield toy.services


def found(services: Any, **asked: Any) -> tuple[Hit, ...]:
    request = SearchRequest("The ferry came late on the river", "library", **{"limit": 5, **asked})
    return services.search.search(request, highlight=False).hits


def by_document(hits: tuple[Hit, ...]) -> Counter[str]:
    return Counter(hit.document.uri for hit in hits)


@pytest.mark.parametrize("mode", SearchMode)
def test_a_long_document_does_not_crowd_out_the_others(services: Any, mode: SearchMode) -> None:
    assert by_document(found(services, mode=mode)) == {"text://0": 5}
    hits = found(services, mode=mode, per_document=1)
    assert by_document(hits) == {f"text://{number}": 1 for number in range(5)}
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    assert hits[0].chunk.id == found(services, mode=mode)[0].chunk.id
    assert by_document(found(services, mode=mode, per_document=2))["text://0"] == 2


def test_with_values_and_a_second_look_too(services: Any) -> None:
    values = (LensValue("river", ()), LensValue("town", ()))
    assert by_document(found(services, values=values))["text://0"] > 1
    assert max(by_document(found(services, values=values, per_document=1)).values()) == 1
    assert max(by_document(found(services, rerank=20, per_document=1)).values()) == 1


def test_none_of_a_document_is_no_number(services: Any) -> None:
    with pytest.raises(InputError, match="per_document must be at least 1"):
        found(services, per_document=0)
