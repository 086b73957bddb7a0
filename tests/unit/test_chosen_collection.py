"""Which collection a page begins with: named by the address, else the one that the browser remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ui.choice_fields import choose_collection
from ui.chosen_collection import COOKIE, asked_collection, missing_collection
from ui.compare_handlers import CompareHandlers


def request(cookie: str | None = None, **parameters: str) -> Any:
    """As Gradio gives it to a handler."""
    return SimpleNamespace(query_params=parameters, cookies={} if cookie is None else {COOKIE: cookie})


def test_the_address_comes_before_the_memory_of_the_browser() -> None:
    assert asked_collection(request("kept", collection="linked", c="searched")) == "linked"
    assert asked_collection(request("kept", c="searched")) == "searched"
    assert asked_collection(request("my%20papers")) == "my papers"
    assert asked_collection(request()) is None
    assert asked_collection(request("", collection="")) is None
    assert len(asked_collection(request("x" * 10_000)) or "") < 1_000
    assert isinstance(asked_collection(request("%ff%00%")), str)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (("sample",), "sample"),
        (("gone",), "library"),
        ((None, "sample"), "sample"),
        (("gone", "sample"), "sample"),
        ((["sample"], {"a": 1}), "library"),
        ((), "library"),
    ],
)
def test_a_field_holds_the_first_wanted_one_that_exists(
    toy_services: Any, wanted: tuple[object, ...], chosen: str
) -> None:
    for name in ("library", "sample"):
        toy_services.services.library.ensure_collection(name)
    field = choose_collection(toy_services.services.catalog, *wanted)
    assert (field.value, [name for name, _ in field.choices]) == (chosen, ["library", "sample"])


def test_a_link_to_a_collection_that_is_gone_says_what_is_shown_in_its_place(toy_services: Any) -> None:
    catalog = toy_services.services.catalog
    assert missing_collection(catalog, request(c="gone")) == ""  # where there is none, the page says that
    for name in ("library", "sample"):
        toy_services.services.library.ensure_collection(name)
    for named in ({"c": "sample"}, {"collection": "library"}, {"c": "*"}, {"c": ""}, {}):
        assert missing_collection(catalog, request("gone", **named)) == ""
    said = missing_collection(catalog, request("sample", c="<b>gone</b>"))
    assert "The collection “&lt;b&gt;gone&lt;/b&gt;” does not exist" in said
    assert "shows “library” instead" in said


def test_a_field_is_empty_where_there_is_no_collection(toy_services: Any) -> None:
    assert choose_collection(toy_services.services.catalog, "sample").value is None


def test_both_sides_of_a_comparison_begin_with_it_unless_they_name_their_own(toy_services: Any) -> None:
    services = toy_services.services
    for name in ("library", "sample"):
        services.library.ensure_collection(name)
    handlers = CompareHandlers(search_service=services.search, catalog=services.catalog, default_steps=5, max_steps=20)

    def sides(**parameters: str) -> tuple[object, object]:
        read = handlers.read_address(parameters)
        return read.left.collection, read.right.collection

    assert sides(collection="sample") == ("sample", "sample")
    assert sides(collection="sample", c2="library") == ("sample", "library")
    assert sides(collection="gone") == ("library", "library")
