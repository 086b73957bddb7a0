"""Excel and PowerPoint encrypt write-protected files with passwords that they know, and open them without asking."""

from __future__ import annotations

import io
import random

import pytest
from bytes_reader import BytesReader
from encrypted_files import FILE_PASS, encrypted_package, encrypted_presentation, encrypted_workbook
from other_office_samples import binary_cell, binary_workbook, excel_97, powerpoint_97, wide
from outlook_files import compound_file
from reader_fuzz import CHANGES, PROCESS_LIMITS
from sample_files import samples, workbook, zip_of
from test_shown_files import hosts

from app.errors import DocumentError
from ingest.readers.content_types import detect
from ingest.readers.document import read_document
from ingest.readers.media_types import PPTX, XLS, XLSX

EXCEL, POWERPOINT = "VelvetSweatshop", "/01Hannes Ruescher/01"
ROWS = [["City", "Land"], ["Rome", "Italy"]]


def locked(name: str, password: str) -> bytes:
    if name == "a.xls":
        return encrypted_workbook(excel_97(ROWS, ["General"], head_more=FILE_PASS), password)
    if name == "a.ppt":
        return encrypted_presentation(powerpoint_97(("Of cities", "Rome"), ("Two", "More")), password)
    if name == "a.xlsb":
        cells = [binary_cell(6, 0, wide("Rome")), binary_cell(6, 1, wide("Italy"))]
        return encrypted_package(binary_workbook({0: cells}, parts={"xl/more.bin": bytes(4096)}), password)
    return encrypted_package(samples()["a.pptx"] if name == "a.pptx" else workbook({"S": ROWS}), password)


@pytest.fixture(scope="module")
def reader():
    """A process with the limits of every document: it may write no file, not even a temporary one."""
    with BytesReader() as reader:
        yield reader


@pytest.mark.parametrize("name", ["a.xlsx", "a.xlsm", "a.xlsb", "a.xls"])
def test_workbooks_with_excels_password_are_read(reader: BytesReader, name: str) -> None:
    found = reader.read(locked(name, EXCEL), uri=name)
    assert found.text.startswith("Sheet S\n\n")
    assert "Rome" in found.text
    assert found.media_type == (XLSX if name in ("a.xlsx", "a.xlsm") else XLS)


@pytest.mark.parametrize("name", ["a.pptx", "a.ppt"])
def test_presentations_with_powerpoints_password_are_read(reader: BytesReader, name: str) -> None:
    found = reader.read(locked(name, POWERPOINT), uri=name)
    assert found.title == "Of cities"


@pytest.mark.parametrize("name", ["a.xlsx", "a.xlsb", "a.xls", "a.ppt", "a.pptx"])
def test_other_passwords_are_refused(reader: BytesReader, name: str) -> None:
    with pytest.raises(DocumentError, match="protected by a password"):
        reader.read(locked(name, "secret"), uri=name)


def test_a_locked_workbook_without_a_suffix_is_one() -> None:
    data = locked("a.xlsx", EXCEL)
    assert detect(io.BytesIO(data), uri="a") == XLSX
    assert detect(io.BytesIO(data), uri="a.pptx") == PPTX
    assert read_document(data, uri="a").media_type == XLSX


def test_rights_of_a_server_are_a_protection() -> None:
    data = compound_file({"EncryptedPackage": b"x" * 99, "DataSpaces": {"DataSpaceMap": b"DRMEncryptedDataSpace"}})
    with pytest.raises(DocumentError, match="protected by a password"):
        read_document(data, uri="a.xlsx")


def test_locked_files_within_others_are_read() -> None:
    assert "Rome" in read_document(hosts("a.xlsx", locked("a.xlsx", EXCEL))["a.docx"], uri="a.docx").text
    assert "Rome" in read_document(zip_of({"in/a.xls": locked("a.xls", EXCEL)}), uri="a.zip").text


def test_an_unknown_encryption_is_a_protection() -> None:
    for name in ("a.xlsx", "a.xls"):
        streams = {"EncryptedPackage": b"x" * 99} if name == "a.xlsx" else {"Workbook": b"x" * 99}
        with pytest.raises(DocumentError):
            read_document(compound_file({**streams, "EncryptionInfo": b"\x09\0\x09\0" + bytes(60)}), uri=name)


def test_damaged_locked_files_are_read_or_refused() -> None:
    rng = random.Random(5)
    files = [(name, locked(name, EXCEL if "xls" in name else POWERPOINT)) for name in ("a.xlsx", "a.xls", "a.ppt")]
    with BytesReader(process_limits=PROCESS_LIMITS) as reader:
        for number in range(60):
            name, data = files[number % len(files)]
            changed = rng.choice(CHANGES)(data, files[(number + 1) % len(files)][1], rng)
            try:
                reader.read(changed, uri=name)
            except DocumentError as error:
                assert "ended twice" not in str(error)  # noqa: PT017
