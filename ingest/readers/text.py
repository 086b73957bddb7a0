"""Plain text, source code and markup such as Markdown. Refuses files that are not text, cleans characters that
databases cannot store.

Texts may have any length: they are read block by block. Only to guess an unknown encoding a sample is used.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from app.errors import DocumentError
from app.types.documents import MetadataValue
from ingest.readers.encodings import Encoding, decode_stream, encoding_of
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Opened, Piece
from ingest.readers.payloads import Payloads

_CONTROLS = re.compile(r"[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]")
_MAX_CONTROL_SHARE = 0.05
_MAX_NUL_SHARE = 0.2
# Escape sequences of terminals; letters that a printer strikes over (`N\bN` is a bold N, `_\bN` an underlined one); the
# end of a file in DOS.
_UNPRINTED = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][0-9A-Z])"
    r"|([^\n\x08])\x08(?=\1)|_\x08(?=[^\n\x08])|(?<=[^\n\x08])\x08_|(?<!\x1a)\x1a++\Z|[\x1b\x08]"
)
_UNPRINTED_BEGIN = re.compile(r"(?:\x1b[^\n]{0,200}|(?:[^\n\x08]\x08+)*[^\n\x08]?)\Z")  # may go on in the next piece
_UNPRINTED_SIGNS = "\x1b\x08\x1a"
_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_RAISED_NUMBER = re.compile(r"\s*([+−-]?[0-9]+)\s*")
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
# Pairs of backslashes are backslashes.
_ESCAPED_LETTERS = re.compile(r"(?<!\\)(?P<before>(?:\\\\)*)(?P<letters>(?:\\u+[0-9a-fA-F]{4})+)")
_ESCAPED_LETTER = re.compile(r"\\u+([0-9a-fA-F]{4})")
_DECLARED_WITHIN = 4_000  # bytes in which declarations are searched
_CODING = re.compile(rb"^[ \t\f]*(?:#|//|/\*|;|%).*?coding[:=][ \t]*([-\w.]{1,40})", re.MULTILINE)
_STYLE_CHARSET = re.compile(rb'@charset "([\w-]{1,40})";')
_INPUT_ENCODING = re.compile(rb"^[ \t]*\\usepackage\[([\w-]{1,40})\]\{inputenc\}", re.MULTILINE)
_OF_LATEX = {"ansinew": "windows-1252", "latin9": "iso-8859-15", "applemac": "macintosh", "utf8x": "utf-8"}
_HOW_TO_MEND = "Save it as UTF-8 text, or give it the suffix of its real format."


def read_text(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
    texts = decoded(stream, charset)
    return Opened("", texts.metadata, map(Piece, without_payloads(texts)))


def read_code(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
    texts = decoded_source(stream, charset)
    return Opened("", texts.metadata, map(Piece, without_payloads(texts)))


def read_properties(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
    r"""Opens properties of Java, whose letters beyond Latin-1 are written as `\u0159`."""
    texts = decoded(stream, charset)
    pieces = (_ESCAPED_LETTERS.sub(_with_letters, line) for line in lines_of(without_payloads(texts)))
    return Opened("", texts.metadata, map(Piece, pieces))


def _with_letters(escaped: re.Match[str]) -> str:
    units = b"".join(int(each, 16).to_bytes(2, "big") for each in _ESCAPED_LETTER.findall(escaped["letters"]))
    return escaped["before"] + clean_text(units.decode("utf-16-be", "replace"))


def without_payloads(texts: DecodedText) -> Iterator[str]:
    """The texts without files in base64. Adds notes about them to the metadata at the end."""
    payloads = Payloads()
    yield from payloads.texts(texts)
    texts.metadata.update(payloads.skipped.metadata)


def decoded_source(stream: BinaryIO, charset: str) -> DecodedText:
    """The clean text of source code, in the encoding that it declares."""
    return decoded(stream, charset, _declared_in(stream))


def decoded(stream: BinaryIO, *declared: str) -> DecodedText:
    """The clean text in pieces. `declared` are labels of its encoding, the most reliable first."""
    return DecodedText(stream, encoding_of(stream, *declared))


class DecodedText:
    """An iterator over pieces of clean text. Raises DocumentError, only after the last piece, if it is not text."""

    def __init__(self, stream: BinaryIO, encoding: Encoding) -> None:
        self.metadata = encoding.metadata
        self._texts = clean_pieces(as_printed(_checked(decode_stream(stream, encoding))))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._texts)


def _declared_in(stream: BinaryIO) -> str:
    """The encoding declared in source code (PEP 263, CSS, LaTeX); empty without a declaration."""
    head = stream.read(_DECLARED_WITHIN)
    stream.seek(0)
    lines = b"\n".join(head.splitlines()[:2])
    match = _CODING.search(lines) or _STYLE_CHARSET.match(head) or _INPUT_ENCODING.search(head)
    label = match[1].decode("ascii") if match else ""
    return _OF_LATEX.get(label, label)


def lines_of(texts: Iterable[str]) -> Iterator[str]:
    """The lines of a text that arrives in pieces, with their line ends."""
    held: list[str] = []
    for text in texts:
        first, *others = text.split("\n")
        held.append(first)
        for other in others:
            yield "".join(held) + "\n"
            held = [other]
    if rest := "".join(held):
        yield rest


class WholeText(NamedTuple):
    text: str
    metadata: dict[str, MetadataValue]  # about its encoding


def decode_text(data: bytes, *declared: str) -> WholeText:
    """Decodes and cleans a text; `declared` as in `decoded`. Raises DocumentError if it is not text."""
    texts = decoded(io.BytesIO(data), *declared)
    return WholeText("".join(texts), texts.metadata)


def raised(text: str) -> str:
    """The text of a superscript: a number in raised digits, since 10⁶ is not 106; other text as it is."""
    number = _RAISED_NUMBER.fullmatch(text)
    return number[1].translate(_RAISED) if number else text


def clean_text(text: str) -> str:
    """Makes `text` valid UTF-8 that PostgreSQL stores, with \\n as the only line end."""
    return "".join(clean_pieces([text]))


def clean_pieces(texts: Iterable[str]) -> Iterator[str]:
    newlines = io.IncrementalNewlineDecoder(None, translate=True)  # a line end (CR LF) may span two pieces
    for text in texts:
        text = text.replace("\0", "")
        if not text.isascii():
            text = _LONE_SURROGATES.sub("\ufffd", text)
        yield newlines.decode(text)
    yield newlines.decode("", final=True)


def as_printed(texts: Iterable[str]) -> Iterator[str]:
    """The pieces as a terminal shows them."""
    held = ""
    for text in texts:
        text = held + text
        begin = _UNPRINTED_BEGIN.search(text, max(0, len(text) - 200))
        held = begin[0] if begin else ""
        yield _without_unprinted(text[: len(text) - len(held)])
    yield _without_unprinted(held)


def _without_unprinted(text: str) -> str:
    return _UNPRINTED.sub("", text) if any(sign in text for sign in _UNPRINTED_SIGNS) else text


def _checked(texts: Iterable[str]) -> Iterator[str]:
    length = nuls = controls = 0
    for text in texts:
        length += len(text)
        nuls += text.count("\0")
        controls += sum(1 for _ in _CONTROLS.finditer(text))
        yield text
    share = max(nuls / max(1, length), controls / max(1, length))
    if nuls > _MAX_NUL_SHARE * length or controls > max(1, _MAX_CONTROL_SHARE * length):
        raise DocumentError(f"This is not text: {share:.0%} of its characters are control characters. {_HOW_TO_MEND}")
