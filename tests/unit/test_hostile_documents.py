"""Documents made to occupy a reader until its time is up."""

from __future__ import annotations

from other_office_samples import open_document, p
from sample_files import unzipped, zip_of

from ingest.readers.document import read_document


def test_an_object_that_holds_itself_is_read_twice() -> None:
    """Each copy holds two further ones, so that they would double with every level."""
    itself = '<draw:frame><draw:object xlink:href="./Object"/></draw:frame>'
    outer = unzipped(open_document("text", p("Before") + p(itself)))
    inner = unzipped(open_document("text", p("Within") + p(itself) + p(itself)))
    found = read_document(zip_of(outer | {"Object/content.xml": inner["content.xml"]}), uri="a.odt")
    assert found.text.split() == ["Before", "Within", "Within", "Within"]
    assert found.metadata["skipped_parts"] == 4
    assert "nested too deeply" in str(found.metadata["skipped"])
