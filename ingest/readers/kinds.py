"""Names of formats in messages, as in "This PDF is damaged". Language files translate each of them."""

from __future__ import annotations

KINDS = (
    *("document", "text", "source code", "HTML", "PDF", "picture", "table", "JSON", "XML", "EPUB", "notebook"),
    *("Word document", "PowerPoint presentation", "Excel workbook", "OpenDocument file", "RTF document"),
    *("manual page", "subtitles", "message", "mailbox", "zip archive", "tar archive"),
    "This JSON",
)
