"""Detects the media type of a file: by signature, then by suffix or declaration, then by whether it is text.

Imports no parser, so that a folder can be listed, and an upload refused, without loading one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import BinaryIO

from app.errors import DocumentError
from ingest.readers.containers import ImplausibleHeaderError, ZipDirectory, open_compound_file
from ingest.readers.encodings import unmarked_utf16
from ingest.readers.errors import parser_errors
from ingest.readers.media_types import (
    CALENDAR,
    COMPRESSED,
    CONTACTS,
    CSV,
    DOC,
    DOCX,
    EPUB,
    HTML,
    IWORK,
    JSON,
    JSON_LINES,
    MAILBOX,
    MANUAL,
    MESSAGE,
    NOTEBOOK,
    ODP,
    ODS,
    ODT,
    OUTLOOK,
    PICTURES,
    PLAIN,
    PPT,
    PPTX,
    PROPERTY_LIST,
    RTF,
    SIGNED,
    SUFFIXES,
    TAR,
    TNEF,
    VISIO,
    XLS,
    XLSX,
    XML,
    XPS,
    ZIP,
    known_type,
    missing_extra_reason,
    type_of_suffix,
    with_charset,
)
from ingest.readers.signed_files import unarmored

PDF = "application/pdf"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_OPEN_OFFICE_1 = "application/vnd.sun.xml."  # the same format under other names
_HEAD_BYTES = 64_000
_PDF_WITHIN = 1_024  # bytes that may precede the signature of a PDF
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SIGNATURES = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"{\\rtf", RTF),
    (b"bplist0", PROPERTY_LIST),
    (b"\x78\x9f\x3e\x22", TNEF),
    (b"\x1f\x8b", COMPRESSED),
    (b"BZh", COMPRESSED),
    (b"\xfd7zXZ\x00", COMPRESSED),
)
# By their first bytes, whether or not these could also begin a text.
_SIGNED_REASONS = (
    (b"GIF87a", "it is a GIF image; save it as PNG"),
    (b"GIF89a", "it is a GIF image; save it as PNG"),
    (b"\xd7\xcd\xc6\x9a", "it is a drawing of Windows; save it as PDF or PNG"),
    (b"%!PS-", "it is PostScript; save it as PDF"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with Zstandard; pack it as ZIP"),
    (b"-----BEGIN PGP MESSAGE-----", "it is encrypted; decrypt it and add it again"),
)
_EMF, _EMF_AT = b" EMF", 40
# By first bytes that could also begin a text: asked only about what is not a text.
_BINARY_REASONS = (
    (b"BM", "it is a BMP image; save it as PNG"),
    (b"\x00\x00\x01\x00", "it is an icon"),
    (b"\x7fELF", "it is a program"),
    (b"MZ", "it is a program"),
    (b"\xcf\xfa\xed\xfe", "it is a program"),
    (b"\xca\xfe\xba\xbe", "it is a program"),
    (b"\x00asm", "it is a program"),
    (b"SQLite format 3\x00", "it is a database; export its tables as CSV"),
    (b"7z\xbc\xaf'\x1c", "it is a 7z archive; pack its files as ZIP"),
    (b"Rar!\x1a\x07", "it is a RAR archive; pack its files as ZIP"),
    (b"ITSF", "it is a compiled help file (CHM); save it as PDF"),
    *((begin, "it is audio or video") for begin in (b"OggS", b"RIFF", b"FORM", b"FLV\x01", b"MThd", b"#!AMR")),
    *((begin, "it is audio or video") for begin in (b"\xff\xf1", b"\xff\xf9", b"\xff\xfb", b"0&\xb2u")),
    (b"AC10", "it is a drawing of AutoCAD; save it as PDF"),
    (b"fLaC", "it is audio or video"),
    (b"ID3", "it is audio or video"),
    (b"\x1aE\xdf\xa3", "it is audio or video"),
    (b"PAR1", "it is a Parquet table; export it as CSV"),
    (b"\x89HDF\r\n", "it is an HDF5 file; export its tables as CSV"),
    (b"\x93NUMPY", "it is a NumPy array; export it as CSV"),
    (b"AT&TFORM", "it is a DjVu document; save it as PDF"),
    (b"\xffWPC", "it is a WordPerfect document; save it as docx or PDF"),
    *(
        (begin, "it is a Lotus 1-2-3 workbook; save it as xlsx")
        for begin in (b"\0\0\x02\0\x04\x04", b"\0\0\x02\0\x06\x04")
    ),
    *((begin, "it is a Lotus 1-2-3 workbook; save it as xlsx") for begin in (b"\0\0\x1a\0", b"\0\0\x1c\0")),
    *((begin, "it is a document of Windows Write; save it as docx or PDF") for begin in (b"1\xbe\0\0", b"2\xbe\0\0")),
    (b"\xe4R\\{\x8c\xd8\xa7M", "it is a OneNote notebook; export it as docx or PDF"),
    (b"\x06\x06\xed\xf5\xd8\x1dF\xe5", "it is an InDesign document; save it as PDF"),
    (b"\0\x01\0\0Standard ", "it is a database; export its tables as CSV"),
    (b"\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea\x81\x60", "it is a table of SAS; export it as CSV"),
    (b"8BPS", "it is a Photoshop image; save it as PNG"),
    (b"wOF", "it is a font"),
    (b"\x00\x01\x00\x00\x00", "it is a font"),
)
# CMS, of S/MIME and of signed files: its type is signed, enveloped or encrypted data.
_CMS = re.compile(rb"\x30(?:\x80|[\x81-\x84].{1,4})\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07([\x02\x03\x06])", re.DOTALL)
_SIGNED_DATA = b"\x02"
_ARMORED = re.compile(rb"(?:\xef\xbb\xbf)?\s*-----BEGIN (?:PKCS7|PKCS #7 SIGNED DATA|CMS)-----")
# By the brand in a file of ISO's base media format, which phones write; other brands are audio or video.
_BRAND_REASONS = (
    *(
        (brand, "it is a HEIC image; save it as JPEG, PNG or PDF")
        for brand in (b"heic", b"heix", b"hevc", b"mif1", b"msf1")
    ),
    *((brand, "it is an AVIF image; save it as JPEG, PNG or PDF") for brand in (b"avif", b"avis")),
    (b"", "it is audio or video"),
)
# Streams that identify compound files of Microsoft Office.
_OLE_STREAMS = (
    ("EncryptedPackage", ""),
    ("__properties_version1.0", OUTLOOK),
    ("WordDocument", DOC),
    ("PowerPoint Document", PPT),
    ("Workbook", XLS),
    ("Book", XLS),
)
# Streams of compound files that no reader knows.
_OTHER_STREAMS = (
    ("VisioDocument", "it is a Visio drawing from before 2013; save it as vsdx or PDF"),
    ("Quill", "it is a Publisher document; save it as PDF"),
    *(
        (f"Star{kind}Document", "it is a StarOffice document; save it as ODF or PDF")
        for kind in ("Writer", "Calc", "Math")
    ),
    *((f"StarDrawDocument{at}", "it is a StarOffice document; save it as ODF or PDF") for at in ("", "3")),
    ("BodyText", "it is a Hangul document (HWP); save it as docx or PDF"),
    ("ViewText", "it is a Hangul document (HWP); save it as docx or PDF"),
    *((name, "it is a Project plan; save it as PDF or CSV") for name in ("   19", "   112", "   114")),
    *((name, "it is a document of Microsoft Works; save it as docx or PDF") for name in ("MN0", "CONTENTS")),
)
_MOBILE_BOOKS = (b"BOOKMOBI", b"TEXtREAd")
_MOBILE_AT = slice(60, 68)
_CONTENT_TYPES = "[Content_Types].xml"
_OOXML = (
    ("word", "wordprocessingml", DOCX),
    ("xl", "spreadsheetml", XLSX),
    ("ppt", "presentationml", PPTX),
    ("visio", "visio", VISIO),
)
_MOST_TYPES_BYTES = 100_000
# Formats that always begin with a signature: a file without it is something else.
_SIGNED = {
    *(
        PDF,
        RTF,
        DOCX,
        XLSX,
        PPTX,
        DOC,
        XLS,
        PPT,
        ODT,
        ODS,
        ODP,
        EPUB,
        OUTLOOK,
        TNEF,
        ZIP,
        COMPRESSED,
        SIGNED,
        VISIO,
        IWORK,
        XPS,
        *PICTURES,
    ),
}
_TABLES = {XLSX, XLS, ODS}
_SAVED_AS_PAGES = {*_TABLES, DOC, DOCX}  # programs write a table in HTML under such a name
# A text is taken for a message when it begins with three of these, or as MIME.
_MAIL_NAMES = {
    *(b"from", b"to", b"subject", b"date", b"received", b"message-id", b"mime-version", b"return-path"),
    *(b"delivered-to", b"content-type", b"reply-to", b"sender"),
}
_FEWEST_MAIL_NAMES = 3
_HEADER_NAME = re.compile(rb"[!-9;-~]{1,76}")
_MAILBOX_LINE = re.compile(rb"From \S+ .*\d\d:\d\d")
_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_BEGIN = rb"\A[\s\0\xef\xbb\xbf\xff\xfe]*+"
_NO_MARKUP = re.compile(_BEGIN + rb"[^<]")
# Files of these formats have such a mark in their first bytes; others of that name are what they begin like.
_MARKED = {
    MANUAL: re.compile(rb"^(?:\.TH|\.Dd|\.SH|\.Sh)\s", re.MULTILINE),
    PROPERTY_LIST: re.compile(_BEGIN + rb"(?=<).{0,4000}?[< ]\0?p\0?l\0?i\0?s\0?t", re.DOTALL),
    XML: re.compile(_BEGIN + rb"<"),
    NOTEBOOK: re.compile(_BEGIN + rb"[{\[]"),
    JSON: _NO_MARKUP,
    JSON_LINES: _NO_MARKUP,
    MAILBOX: re.compile(rb"^From ", re.MULTILINE),
    MESSAGE: re.compile(_BEGIN + rb"(?![<{\[]|BEGIN:V).", re.IGNORECASE),
}
_MACRO_WITHIN = 4_000
_MARKUP = (
    (
        re.compile(rb"(?>\s*<!--.*?-->)*+\s*<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL),
        HTML,
    ),
    (re.compile(rb"\s*<\?xml[^>]*\?>.{0,2000}?<html[\s>]", re.IGNORECASE | re.DOTALL), HTML),
    (re.compile(rb"\s*<\?xml\s"), XML),
    (re.compile(rb"\s*<(?:svg|opml|mxfile|rss|feed|gpx|kml|map\s+version=)[\s>\"']"), XML),
    (re.compile(rb"BEGIN:VCALENDAR\s", re.IGNORECASE), CALENDAR),
    (re.compile(rb"BEGIN:VCARD\s", re.IGNORECASE), CONTACTS),
)
_TABLE_MARKUP = re.compile(rb"(?>\s*<!--.*?-->)*+\s*<table[\s>]", re.IGNORECASE | re.DOTALL)
_INTERPRETERS = (
    (b"python", "text/x-python"),
    (b"bash", "text/x-shell"),
    (b"sh", "text/x-shell"),
    (b"node", "text/x-javascript"),
    (b"perl", "text/x-perl"),
    (b"ruby", "text/x-ruby"),
    (b"php", "text/x-php"),
    (b"Rscript", "text/x-r"),
)
_FLAT = re.compile(rb'<office:document\s[^<>]*?office:mimetype="([\w./-]+)"')
_CONTROLS = re.compile(rb"[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROL_SHARE = 0.05
_MAX_NUL_SHARE = 0.2
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


READABLE = frozenset(SUFFIXES.values())


def detect(stream: BinaryIO, *, uri: str, declared: str = "") -> str:
    """The media type that selects the reader, with the declared charset for texts. Leaves `stream` at its start.

    `declared` is the sender's media type: it outranks the suffix of `uri`, but not a signature. Raises DocumentError
    with one line for unreadable formats.
    """
    expected = known_type(declared)
    if expected not in READABLE:
        expected = type_of_suffix(uri)
    stream.seek(0)
    head = stream.read(_HEAD_BYTES)
    try:
        media_type = _of_content(stream, head, expected) if head else expected or PLAIN
    finally:
        stream.seek(0)
    if advice := missing_extra_reason(media_type):
        raise _refused(advice)
    return with_charset(media_type, declared) if media_type not in _SIGNED else media_type


def _of_content(stream: BinaryIO, head: bytes, expected: str) -> str:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(stream, expected)
    if head.startswith(_OLE):
        return _compound(stream, expected)
    if signed := _signature(head):
        return TAR if (signed, expected) == (COMPRESSED, TAR) else _readable(signed)
    is_armored = expected == SIGNED or _ARMORED.match(head)
    if cms := _CMS.match(unarmored(head) if is_armored else head):
        if cms[1] != _SIGNED_DATA:
            raise _refused(_encrypted_reason())
        return SIGNED
    if head[_EMF_AT:].startswith(_EMF):
        raise _refused(_drawing_reason())
    if head[_MOBILE_AT] in _MOBILE_BOOKS:
        raise _refused(_mobile_book_reason())
    if reason := _by_signature(_SIGNED_REASONS, head):
        raise _refused(reason)
    is_signed = expected in _SIGNED
    if not _is_text(head, most_nuls=0.0 if is_signed or not expected else _MAX_NUL_SHARE):
        reason = (
            _by_signature(_BRAND_REASONS, head[8:12]) if head[4:8] == b"ftyp" else _by_signature(_BINARY_REASONS, head)
        )
        if reason or (not is_signed and expected != TAR):
            raise _refused(reason or _unknown_reason())
        return expected  # damaged; its reader reports how
    if expected == PDF and _OBJECT.search(head):
        return PDF  # with a damaged signature
    if expected and not is_signed and (expected not in _MARKED or _MARKED[expected].search(head)):
        return expected
    if expected in _SAVED_AS_PAGES and _TABLE_MARKUP.match(head.removeprefix(codecs.BOM_UTF8)):
        return HTML
    return _begun_like(head) or (CSV if expected in _TABLES else PLAIN)


def _by_signature(reasons: Iterable[tuple[bytes, str]], head: bytes) -> str:
    return next((reason for signature, reason in reasons if head.startswith(signature)), "")


def _unknown_reason() -> str:
    return "it holds no text, and its format is unknown; save it as PDF or text"


def _unknown_program_reason() -> str:
    return "it is a compound file of an unknown program"


def _mobile_book_reason() -> str:
    return "it is a book of Kindle or Palm; save it as EPUB"


def _encrypted_reason() -> str:
    return "it is encrypted; decrypt it and add it again"


def _drawing_reason() -> str:
    return "it is a drawing of Windows; save it as PDF or PNG"


def _refused(reason: str) -> DocumentError:
    return DocumentError(f"This file cannot be read: {reason}.")


def _readable(kind: str) -> str:
    """The media type `kind`, if there is a reader for it."""
    kind = known_type(kind)
    if kind not in READABLE:
        raise _refused(f"it is {kind}")
    return kind


def _signature(head: bytes) -> str:
    if b"%PDF-" in head[:_PDF_WITHIN] and (head.startswith(b"%PDF-") or not _is_text(head)):
        return PDF
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head[257:262] == b"ustar":
        return TAR
    return next((media_type for signature, media_type in _SIGNATURES if head.startswith(signature)), "")


def _zipped(stream: BinaryIO, expected: str) -> str:
    """The format of a zip archive; for a damaged one, the format that its name or sender claims."""
    try:
        with ZipDirectory(stream) as archive:
            names: set[str] = set(archive.namelist())
            kind, types = (
                archive.begin_of(name, _MOST_TYPES_BYTES).decode("utf-8", "replace")
                for name in ("mimetype", _CONTENT_TYPES)
            )
    except parser_errors():
        return expected if expected in _SIGNED and expected != PDF else ZIP
    if kind.startswith((EPUB, _OPEN_DOCUMENT)):
        return _readable(kind.partition("-template")[0].strip() if kind.startswith(_OPEN_DOCUMENT) else EPUB)
    if kind.startswith(_OPEN_OFFICE_1):
        return {"writer": ODT, "calc": ODS}.get(kind.removeprefix(_OPEN_OFFICE_1).partition(".")[0].strip(), ODP)
    if "content.xml" in names and expected in (ODT, ODS, ODP):  # its file `mimetype` is missing
        return expected
    if "META-INF/container.xml" in names:
        return EPUB
    if _is_iwork(names):
        return IWORK
    if any(name.lower().endswith(".fpage") for name in names):
        return XPS
    if types:
        if "sheet.binary" in types:
            return XLS  # xlsb, which the reader of xls handles, too
        folders = {name.partition("/")[0] for name in names}
        for folder, word, media_type in _OOXML:
            if folder in folders and word in types:  # both, because a presentation may embed workbooks
                return media_type
        return expected if expected in _SIGNED and expected != PDF else ZIP
    return ZIP


def _is_iwork(names: Iterable[str]) -> bool:
    """Whether it is a document of Pages, Numbers or Keynote: since 2013, or of before, in XML."""
    names = set(names)
    folders = tuple(f"{suffix}/Index.zip" for suffix in (".pages", ".numbers", ".key"))
    if any(name.endswith((".iwa", ".iwph", *folders)) for name in names):
        return True
    has_index = bool(names & {"index.xml", "index.apxl", "Index.zip"})
    return has_index and bool(names & {"buildVersionHistory.plist", "Metadata/Properties.plist"})


def _compound(stream: BinaryIO, expected: str) -> str:
    """The format of a Microsoft compound file (OLE)."""
    try:
        with open_compound_file(stream) as compound:
            media_type = next((kind for name, kind in _OLE_STREAMS if compound.exists(name)), None)
            other = next((reason for name, reason in _OTHER_STREAMS if compound.exists(name)), "")
    except ImplausibleHeaderError as error:
        if expected in (DOCX, PPTX, XLSX):
            return expected  # its reader opens nothing but a zip archive
        raise _refused(f"it is damaged ({error})") from error
    except parser_errors() as error:
        if expected in _SIGNED:
            return expected  # damaged; its reader reports how
        raise _refused(f"it is damaged ({type(error).__name__})") from error
    if media_type is None:
        raise _refused(other or _unknown_program_reason())
    if not media_type:
        if expected == DOCX:
            raise DocumentError("This file is protected by a password. Save it without one.")
        # Excel and PowerPoint encrypt with passwords that they know: see default_passwords.py.
        return expected if expected in (PPTX, XLS) else XLSX
    return _readable(media_type)


def _is_text(head: bytes, *, most_nuls: float = 0.0) -> bool:
    """Whether it has hardly any control characters, in any encoding."""
    if head.startswith(_BYTE_ORDER_MARKS) or unmarked_utf16(head) is not None:
        return True
    if head.count(0) > most_nuls * len(head):
        return False
    return len(_CONTROLS.findall(head.rstrip(b"\x1a"))) <= _MAX_CONTROL_SHARE * len(head)


def _begun_like(head: bytes) -> str:
    """The media type of a text by its first lines; empty if none matches."""
    head = head.removeprefix(codecs.BOM_UTF8)
    if _MAILBOX_LINE.match(head):
        return MAILBOX
    if _is_mail(head):
        return MESSAGE
    if head.startswith(b"#!"):
        line = head.partition(b"\n")[0]
        return next((media_type for name, media_type in _INTERPRETERS if name in line), "")
    if _MARKED[MANUAL].search(head[:_MACRO_WITHIN]):
        return MANUAL
    if flat := _FLAT.search(head):  # OpenDocument as one XML file
        return _readable(flat.group(1).decode("ascii").removesuffix("-template"))
    return next((media_type for pattern, media_type in _MARKUP if pattern.match(head)), "")


def _is_mail(head: bytes) -> bool:
    names: set[bytes] = set()
    for line in head.splitlines():
        if not line.strip():
            break
        if line[:1] in b" \t" and names:
            continue
        name, colon, _ = line.partition(b":")
        if not colon or not _HEADER_NAME.fullmatch(name):
            return False
        names.add(name.lower())
    return len(names & _MAIL_NAMES) >= _FEWEST_MAIL_NAMES or names >= {b"mime-version", b"content-type"}
