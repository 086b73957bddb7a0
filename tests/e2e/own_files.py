"""Twenty files of a person who keeps a bakery and a boat, in ten formats, and questions whose answers stand in them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from email.message import EmailMessage
from pathlib import Path

import docx
import openpyxl
from page_application import pdf

NOTES: Mapping[str, tuple[str, str]] = {
    "bicycle.txt": (
        "Mending the bicycle",
        "The chain of the bicycle jumps on the small cog. A new chain costs less than a new cassette. "
        "Oil it after rain, and wipe off what drips.",
    ),
    "boat.txt": (
        "The boat in winter",
        "The boat is lifted out of the water in October. Drain the engine before the first frost, or the block cracks. "
        "The hull is painted again every second spring.",
    ),
    "choir.txt": (
        "The choir",
        "Rehearsals of the choir are on Thursdays in the old school. The altos sit by the window. "
        "Singers who miss two rehearsals in a row do not sing at the concert.",
    ),
    "garden.txt": (
        "The garden",
        "Tomatoes want a warm wall and no rain on their leaves. Sow the beans after the middle of May. "
        "Slugs stay away from a ring of wood ash.",
    ),
    "bees.md": (
        "Keeping bees",
        "A swarm hangs in the pear tree for an hour at most. Feed the bees with sugar syrup in September. "
        "Wooden hives keep the winter moisture out better than plastic ones.",
    ),
    "bread.md": (
        "The sourdough",
        "The starter is fed with rye flour every evening. Bake the loaf in a closed iron pot for forty minutes. "
        "It sings when it cools.",
    ),
    "walk.md": (
        "The walk to the lighthouse",
        "From the ferry it is two hours on foot to the lighthouse. The path along the cliff is closed in April, "
        "when the gulls breed. There is no water on the way.",
    ),
    "chess.html": (
        "The chess club",
        "The club meets above the bakery. Beginners are taught by the former champion of the valley. "
        "Clocks are not used before nine in the evening.",
    ),
    "cheese.html": (
        "Making cheese",
        "Warm the milk to thirty-two degrees before the rennet goes in. Cut the curd into cubes of a centimetre. "
        "The wheel lies in brine for a night.",
    ),
    "museum.html": (
        "The museum of clocks",
        "The oldest clock of the museum has only one hand. Children pay nothing on Sundays. The tower may be climbed.",
    ),
    "lease.docx": (
        "Lease of the bakery",
        "The rent of the bakery is paid on the third of each month. The landlord repairs the oven; the tenant repairs "
        "the windows. Notice must be given half a year ahead.",
    ),
    "minutes.docx": (
        "Minutes of the allotment society",
        "The society bought a new pump for the well. It was decided that bonfires are forbidden after March.",
    ),
    "insurance.pdf": ("", "Damage by storm is paid only when the wind was above force eight."),
    "kettle.pdf": ("", "Do not fill the kettle above the upper mark, or boiling water may spill."),
    "letter.eml": (
        "Your lost suitcase",
        "Your suitcase was found in Lyon. The courier will bring it on Tuesday between two and four.",
    ),
    "invitation.eml": (
        "Grandmother's birthday",
        "We celebrate in the barn. Please bring folding chairs, and no presents.",
    ),
}
TABLES: Mapping[str, list[list[str]]] = {
    "prices.csv": [["goods", "price"], ["rye loaf", "4.20"], ["poppy seed roll", "0.90"]],
    "tides.csv": [["day", "high water"], ["Monday", "06:12"], ["Tuesday", "07:01"]],
    "plants.xlsx": [["plant", "place"], ["rosemary", "sunny and dry"], ["fern", "shady and damp"]],
}
CONTACTS = [{"name": "Ines Holm", "trade": "chimney sweep"}, {"name": "Tom Arden", "trade": "piano tuner"}]
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "What happens to the engine if it freezes?": ("boat.txt", "Drain the engine before the first frost"),
    "Who has to pay for a broken oven?": ("lease.docx", "The landlord repairs the oven"),
    "When is the coastal path closed?": ("walk.md", "closed in April"),
    "Where did my luggage turn up?": ("letter.eml", "found in Lyon"),
    "How hot should the milk be for cheese?": ("cheese.html", "thirty-two degrees"),
}


def write_files(folder: Path) -> list[Path]:
    for name, (title, text) in NOTES.items():
        (folder / name).write_bytes(_written(Path(name).suffix, title, text))
    for name, rows in TABLES.items():
        (folder / name).write_bytes(_sheet(rows) if name.endswith(".xlsx") else _csv(rows))
    (folder / "contacts.json").write_text(json.dumps(CONTACTS))
    return sorted(folder.iterdir())


def _written(suffix: str, title: str, text: str) -> bytes:
    made = io.BytesIO()
    match suffix:
        case ".pdf":
            return pdf((text,))
        case ".docx":
            document = docx.Document()
            document.add_heading(title)
            document.add_paragraph(text)
            document.save(made)
            return made.getvalue()
        case ".eml":
            message = EmailMessage()
            message["Subject"], message["From"], message["To"] = title, "post@example.org", "me@example.org"
            message.set_content(text)
            return message.as_bytes()
        case ".html":
            return f"<title>{title}</title><h1>{title}</h1><p>{text}</p>".encode()
        case ".md":
            return f"# {title}\n\n{text}\n".encode()
    return f"{title}\n\n{text}\n".encode()


def _csv(rows: list[list[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


def _sheet(rows: list[list[str]]) -> bytes:
    book, made = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(made)
    return made.getvalue()
