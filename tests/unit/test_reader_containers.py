"""Messages, mailboxes and archives: members read by their own readers, and nothing that a hostile archive gains."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
import zipfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_files import mailbox, message, pdf, tar_of, word_file, zip_of

from app.errors import DocumentError
from ingest.readers import ReadLimits
from ingest.readers.document import read_document
from ingest.readers.mail import parse_message

HEAD = "From: Ada Lovelace <ada@example.org>\nTo: bob@example.org\nDate: Wed, 01 May 2024 10:00:00 +0200"


def archives(files: dict[str, str | bytes]) -> list[Any]:
    """Named by their suffix: bytes would become part of the test's name, and those of gzip hold the time."""
    made = {"a.zip": zip_of(files), "a.tar": tar_of(files), "a.tar.gz": gzip.compress(tar_of(files))}
    return [pytest.param(name, data, id=name) for name, data in made.items()]


class TestMessages:
    @pytest.mark.parametrize("name", ["Content-Type", "Content-Disposition", "Date"])
    def test_only_the_begin_of_a_long_header_is_parsed(self, name):
        parsed = parse_message(f"Subject: x\n{name}: text/plain; {'a<a>;' * 40_000}\n\nBody.".encode())
        assert len(parsed[name]) <= 5_000
        assert parsed.get_content_type() == "text/plain"

    def test_people_date_and_body(self):
        found = read_document(message("Körper.\nZwei.", subject="Of cities"), uri="a.eml")
        assert found.text.split("\n\n") == ["# Of cities", HEAD, "Körper.\nZwei."]
        assert found.title == "Of cities"
        assert found.metadata == {
            "from": "Ada Lovelace <ada@example.org>",
            "to": "bob@example.org",
            "subject": "Of cities",
            "date": "2024-05-01T10:00:00+02:00",
        }

    def test_attachments_are_read_by_their_own_readers(self):
        attached = {"report.pdf": pdf("In the PDF."), "t.csv": b"a,b\n1,2\n", "x.gif": b"GIF89a"}
        found = read_document(message(attachments=attached), uri="a.eml")
        assert found.text.split("\n\n")[3:] == ["# report.pdf", "In the PDF.", "# t.csv", "a: 1; b: 2"]
        assert [(level, found.text[start:end]) for start, end, level in found.marks] == [
            (1, "# Of cities"),
            (2, "# report.pdf"),
            (2, "# t.csv"),
            (0, "a: 1; b: 2"),
        ]
        assert found.metadata["attachments"] == 2
        assert found.metadata["skipped_attachments"] == 1
        assert found.metadata["skipped"] == "x.gif: This file cannot be read: it is a GIF image; save it as PNG."

    def test_html_body(self):
        found = read_document(message("<p>Hello <b>you</b></p><script>x</script>", html=True), uri="a.eml")
        assert found.text.endswith("\n\nHello you")

    @pytest.mark.parametrize("charset", ["iso-2022-jp", "shift_jis", "utf-16", "no-such-charset"])
    def test_declared_charset(self, charset):
        text = "今日は良い天気ですね。公園に行きましょう。明日も晴れるでしょう。"
        body = text.encode("utf-8" if charset == "no-such-charset" else charset)
        data = b"Subject: s\nContent-Type: text/plain; charset=" + charset.encode() + b"\n"
        data += b"Content-Transfer-Encoding: base64\n\n" + base64.b64encode(body)
        assert text in read_document(data, uri="a.eml").text

    def test_malformed_headers_cost_no_text(self):
        data = b"From: =?utf-8?q?=FF?= <<>>@@\nDate: yesterday\nSubject: =?x?b?!!?=\n\nThe body."
        found = read_document(data, uri="a.eml")
        assert "The body." in found.text
        assert "date" not in found.metadata

    @pytest.mark.parametrize("data", [b"\n\nNo header at all.\nDate: never", b"Subject:\n\n"])
    def test_no_message_is_refused(self, data):
        with pytest.raises(DocumentError, match=r"not a mail message|empty"):
            read_document(data, uri="a.eml")


def test_mailbox_gives_every_message():
    data = mailbox(message("One.", subject="First"), message("Two.\n\n>From here on.", subject="Second"))
    found = read_document(data, uri="a.mbox")
    assert found.text.split("\n\n") == [
        *("# Message 1", "# First", HEAD, "One."),
        *("# Message 2", "# Second", HEAD, "Two.", "From here on."),
    ]
    assert found.metadata == {"messages": 2}


def test_file_that_is_no_mailbox_is_refused():
    with pytest.raises(DocumentError, match="not a mailbox"):
        read_document(b"From me to you.\n\nDear Bob,", uri="a.mbox")


class TestArchives:
    @pytest.mark.parametrize(
        ("uri", "data"), archives({"a/one.md": "# One", "b.csv": "x,y\n1,2\n", "c.docx": word_file()})
    )
    def test_every_member_under_its_name(self, uri, data):
        found = read_document(data, uri=uri)
        assert found.text.startswith("# a/one.md\n\n# One\n\n# b.csv\n\nx: 1; y: 2\n\n# c.docx\n\nBefore")
        assert found.metadata == {"files": 3}
        assert found.title == "a"

    @pytest.mark.parametrize(
        ("uri", "data"), archives({"a.txt": "read", "b.exe": "MZ\0\0", "c.pdf": "%PDF-1.7 cut", ".git/x.txt": "hidden"})
    )
    def test_members_that_cannot_be_read_are_named(self, uri, data):
        found = read_document(data, uri=uri)
        assert found.text == "# a.txt\n\nread"
        assert found.metadata["skipped_files"] == 2
        assert str(found.metadata["skipped"]).splitlines() == [
            "b.exe: This file cannot be read: it is a program.",
            "c.pdf: This PDF is truncated: its end is missing",
        ]

    @pytest.mark.parametrize(("uri", "data"), archives({"b.exe": "MZ\0\0"}))
    def test_archive_with_nothing_to_read_is_refused(self, uri, data):
        with pytest.raises(DocumentError, match=r"no file that can be read.\nb\.exe"):
            read_document(data, uri=uri)

    @pytest.mark.parametrize(("uri", "data"), archives({"../../etc/cron.d/x.txt": "up", "/abs/y\n.txt": "root"}))
    def test_names_lead_nowhere(self, uri, data, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found = read_document(data, uri=uri)
        assert found.text == "# etc/cron.d/x.txt\n\nup\n\n# abs/y .txt\n\nroot"
        assert list(tmp_path.iterdir()) == []

    def test_links_are_not_followed(self):
        data = tar_of({"a.txt": "read"}, links={"passwd.txt": "/etc/passwd", "b.txt": "a.txt"})
        found = read_document(data, uri="a.tar")
        assert found.text == "# a.txt\n\nread"
        assert found.metadata["skipped_files"] == 2

    def test_protected_member_is_skipped(self):
        data = bytearray(zip_of({"a.txt": "read", "b.txt": "secret"}))
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.rindex(signature) + offset] |= 1
        assert "password" in str(read_document(bytes(data), uri="a.zip").metadata["skipped"])

    @pytest.mark.parametrize(("uri", "data"), archives({f"{n}.txt": b"a" * 400_000 for n in range(5)}))
    def test_expands_beyond_the_limit(self, uri, data):
        with pytest.raises(DocumentError, match="unpacks to more than 1 MB"):
            read_document(data, uri=uri, limits=ReadLimits(max_expanded_bytes=1_000_000))

    def test_gzip_bomb_is_not_unpacked(self):
        bomb = tarfile.TarInfo("hidden/.bomb")
        bomb.size = 400_000_000
        data = gzip.compress(bomb.tobuf() + bytes(50_000_000), compresslevel=1)
        with pytest.raises(DocumentError, match="unpacks to more than 10 MB"):
            read_document(data, uri="a.tar.gz", limits=ReadLimits(max_expanded_bytes=10_000_000))

    @pytest.mark.parametrize(("uri", "data"), archives({f"{n}.txt": "x" for n in range(6)}))
    def test_too_many_members_are_refused(self, uri, data):
        with pytest.raises(DocumentError, match="more than 5 files, which is the limit"):
            read_document(data, uri=uri, limits=ReadLimits(max_members=5))

    def test_nesting_ends_somewhere(self):
        data = zip_of({"core.txt": "the core"})
        for depth in range(2):
            data = zip_of({f"{depth}.zip": data, "beside.txt": "beside"})
        assert "the core" in read_document(data, uri="a.zip").text
        found = read_document(zip_of({"2.zip": data}), uri="a.zip")
        assert "the core" not in found.text
        assert found.text.count("beside") > 1

    def test_one_text_limit_for_all_members(self):
        data = zip_of({f"{n}.txt": "word " * 100 for n in range(10)})
        with pytest.raises(DocumentError, match="longer than 2,000 characters"):
            read_document(data, uri="a.zip", limits=ReadLimits(max_characters=2_000))

    def test_member_with_a_wrong_checksum_is_skipped(self):
        data = zip_of({"a.txt": "read"})
        buffer = io.BytesIO(data)
        with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
            archive.writestr("b.txt", "to be changed")
        damaged = buffer.getvalue().replace(b"to be changed", b"to be CHANGED")
        found = read_document(damaged, uri="a.zip")
        assert found.text == "# a.txt\n\nread"
        assert "b.txt: It is damaged" in str(found.metadata["skipped"])


@pytest.mark.parametrize("uri", ["a.eml", "a.mbox", "a.zip", "a.tar", "a.epub", "a.pptx", "a.json", "a.xml", "a.jsonl"])
@given(data=st.binary(min_size=1, max_size=200))
@settings(deadline=None)
def test_any_bytes_give_text_or_a_reason(uri, data):
    try:
        assert read_document(data, uri=uri).text.strip()
    except DocumentError as error:
        reason = str(error)
    else:
        return
    assert len(reason) > 30
