"""No reader takes what a document says for the name of a file or an address, whatever the parser beneath would do."""

from __future__ import annotations

import io
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from app.errors import DocumentError
from ingest.readers import SUFFIXES
from ingest.readers.document import read_document

SECRET = "Heliotrope 4711"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    found = tmp_path / "secret.txt"
    found.write_text(f"{SECRET}\n", "utf-8")
    return found


def text_of(data: bytes, name: str) -> str:
    """Empty where it is refused."""
    with suppress(DocumentError):
        return read_document(data, uri=f"file:///somewhere/{name}", media_type=None).text
    return ""


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_a_document_that_is_a_name(secret: Path, suffix: str) -> None:
    for form in ("{}", "{}\n", "file://{}", "<{}>", '"{}"'):
        assert SECRET not in text_of(form.format(secret).encode(), f"named{suffix}")


INCLUDES = {
    "manual.1": ".TH A 1\n.SH NAME\na\n.so {path}\n.mso {path}\n",
    "page.rst": "Title\n=====\n\n.. include:: {path}\n\n.. raw:: html\n   :file: {path}\n",
    "page.adoc": "= Title\n\ninclude::{path}[]\n",
    "page.org": '#+TITLE: a\n#+INCLUDE: "{path}"\n',
    "page.md": '# Title\n\n--8<-- "{path}"\n\n![a]({path}) [b](file://{path})\n',
    "page.tex": "\\begin{{document}}a \\input{{{path}}}\\include{{{path}}}\\end{{document}}\n",
    "page.html": '<p>a</p><iframe src="{path}"></iframe><object data="file://{path}"></object>'
    '<img src="{path}"><link rel="import" href="{path}"><!--#include file="{path}" -->',
    "page.xml": '<!DOCTYPE a [<!ENTITY b SYSTEM "{path}"><!ENTITY % c SYSTEM "file://{path}">]>'
    '<a xmlns:xi="http://www.w3.org/2001/XInclude">&b;<xi:include href="{path}" parse="text"/></a>',
    "page.rtf": '{{\\rtf1 a {{\\field{{\\*\\fldinst INCLUDETEXT "{path}"}}{{\\fldrslt b}}}}\n'
    '{{\\field{{\\*\\fldinst INCLUDEPICTURE "{path}"}}}}}}',
    "mail.eml": "Subject: a\nMIME-Version: 1.0\n"
    'Content-Type: message/external-body; access-type=local-file; name="{path}"\n\n'
    "Content-Type: text/plain\n\n",
    "notebook.ipynb": '{{"cells": [{{"cell_type": "markdown", "source": ["![a]({path})"], "metadata": {{}}}}],'
    ' "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}',
}


@pytest.mark.parametrize("name", INCLUDES)
def test_what_a_document_includes_stays_outside(secret: Path, name: str) -> None:
    assert SECRET not in text_of(INCLUDES[name].format(path=secret).encode(), name)


def test_links_in_an_archive_lead_nowhere(secret: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo(f"link{kind.decode()}.txt")
            member.type, member.linkname = kind, str(secret)
            tar.addfile(member)
        for name in (str(secret), f"../../..{secret}"):
            tar.addfile(tarfile.TarInfo(name))
    assert SECRET not in text_of(packed.getvalue(), "all.tar")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(secret))
        archive.writestr(f"../../..{secret}", "")
    assert SECRET not in text_of(packed.getvalue(), "all.zip")


PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def relations(*targets: tuple[str, str]) -> str:
    listed = (f'<Relationship Id="{kind}" Type="{OFFICE}/{kind}" Target="{target}"/>' for kind, target in targets)
    return f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(listed)}</Relationships>'


@pytest.mark.parametrize("part", ["word/document.xml", "xl/workbook.xml", "ppt/presentation.xml", "content.xml"])
def test_parts_of_a_package_lead_nowhere(secret: Path, part: str) -> None:
    packed = io.BytesIO()
    suffix = {"word": "docx", "xl": "xlsx", "ppt": "pptx"}.get(part.split("/")[0], "odt")
    target = f"../../../../../../../..{secret}"
    with zipfile.ZipFile(packed, "w") as archive:
        if suffix == "odt":
            archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{PACKAGE}/content-types"/>')
        archive.writestr("_rels/.rels", relations(("officeDocument", part)))
        folder, _, name = part.rpartition("/")
        leading_out = relations(("header", target), ("sharedStrings", f"file://{secret}"))
        archive.writestr(f"{folder}/_rels/{name}.rels", leading_out)
        archive.writestr(part, f'<!DOCTYPE a [<!ENTITY b SYSTEM "file://{secret}">]><a>&b;</a>')
    assert SECRET not in text_of(packed.getvalue(), f"all.{suffix}")
