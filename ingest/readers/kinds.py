"""Names of formats in messages, as in "This PDF is damaged", and of what notes count and number. Language files
translate each of them."""

from __future__ import annotations

COUNTED = ("attachments", "files", "lines", "messages", "parts", "passages", "results")  # what is left out
COUNTED_ONCE = tuple(each.removesuffix("s") for each in COUNTED)
PLACES = ("Attachment", "Cell", "Characters", "Line", "Message", "Row", "page")  # a number follows

KINDS = (
    *("document", "text", "source code", "HTML", "PDF", "picture", "table", "JSON", "XML", "EPUB", "notebook"),
    *("Word document", "PowerPoint presentation", "Excel workbook", "OpenDocument file", "RTF document"),
    *("manual page", "subtitles", "message", "mailbox", "zip archive", "tar archive"),
    *(
        "compressed file",
        "signed file",
        "Visio drawing",
        "XPS document",
        "iWork document",
        "property list",
        "calendar",
        "address book",
    ),
    "This JSON",
    *COUNTED,
    *COUNTED_ONCE,
    *PLACES,
)
