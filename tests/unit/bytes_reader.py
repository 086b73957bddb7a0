"""The reader of a worker, for tests that have bytes and want the whole text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from app.types.texts import ExtractedText
from ingest.readers import ProcessReader
from ingest.readers.document import TextInMemory


class BytesReader(ProcessReader):
    def read(self, data: bytes, *, uri: str) -> ExtractedText:
        text = TextInMemory()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stored"
            path.write_bytes(data)
            return text.of(self(path, uri=uri, into=text))
