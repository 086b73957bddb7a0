"""Built-in lenses (named instructions) and look-up of saved ones.

The built-in wordings follow the default model's training and the paper's tasks (Tables 11 and 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.errors import InputError, UnknownLensError
from app.search.value_syntax import parse_values
from app.types.documents import Lens
from app.types.values import LensValue

if TYPE_CHECKING:
    from app.ports.catalog import LensesAndJudgements

STARTERS = (
    Lens(
        "Answers the question",
        "Given a question, retrieve passages that answer the question.",
        note="Passages that answer what you ask.",
    ),
    Lens(
        "Same topic",
        "Identify the topic of the text, such as economy, government or geography.",
        note="About the same thing, whatever is said about it.",
        values=(
            "economy = trade, industry",
            "government = politics, law",
            "geography = land, climate",
            "people = population, society",
            "science = research, technology",
            "health = medicine, disease",
            "military = army, defence",
            "transport",
            "communications",
            "energy",
            "history",
            "culture = art, religion",
        ),
    ),
    Lens(
        "Same place",
        "Identify the region of the world the text is about.",
        note="Set in the same part of the world.",
        values=(
            "Africa",
            "Asia",
            "Europe",
            "North America = United States, Canada",
            "Latin America = South America, Central America, Caribbean",
            "Middle East",
            "Oceania = Australia, Pacific islands",
            "Antarctica = Arctic, polar",
        ),
    ),
    Lens("Same intent", "Represent the intention of this text.", note="The writer wants the same to happen."),
    Lens(
        "Same feeling",
        "Represent the emotion of this text.",
        note="The writer feels the same.",
        values=(
            "joy = happy, delighted",
            "anger = furious, annoyed",
            "sadness = sad, grief",
            "fear = afraid, worried",
            "surprise",
            "disgust",
            "gratitude = thankful",
            "disappointment = let down",
        ),
    ),
    Lens(
        "Same problem",
        "Identify the problem the customer complains about.",
        note="For complaints and tickets: the same thing went wrong.",
    ),
    Lens(
        "Same opinion",
        "Classify the sentiment of the given comment as positive, negative, ambiguous or neutral.",
        note="As pleased or displeased as your text.",
        values=("positive = pleased, praise", "negative = displeased, complaint", "neutral = matter of fact"),
    ),
    Lens(
        "Same question",
        "Given a question, retrieve questions that are semantically equivalent to the given question.",
        note="Other ways to ask it: duplicates in a forum or an FAQ.",
    ),
    Lens(
        "Says the same",
        "Retrieve semantically similar text.",
        note="Close in meaning as a whole.",
    ),
    Lens(
        "Supports or refutes",
        "Given a claim, retrieve documents that support or refute the claim.",
        note="Evidence on a claim, for and against.",
    ),
    Lens(
        "Contradicts",
        "Given a claim, find documents that refute the claim.",
        note="Looks for the other side of a claim. Small models find its topic more surely than its denial.",
    ),
    Lens(
        "Same kind of text",
        "Identify what kind of text this is, such as a definition, a question or a summary.",
        note="A definition for a definition, a question for a question.",
        values=("definition", "question", "summary", "instructions", "story", "complaint", "news report", "list"),
    ),
    Lens(
        "Same field of study",
        "Identify the academic subject of the text.",
        note="For textbooks and papers.",
        values=(
            "mathematics",
            "physics",
            "chemistry",
            "biology",
            "medicine",
            "psychology",
            "sociology",
            "economics",
            "history",
            "philosophy",
            "law",
            "computer science",
            "literature",
            "engineering",
        ),
    ),
    Lens(
        "Same use",
        "Identify what the software is used for.",
        note="For software: does the same job.",
    ),
)
_STARTERS = {lens.name: lens for lens in STARTERS}


def lenses_of(catalog: LensesAndJudgements) -> list[Lens]:
    """Saved lenses by name, then the built-in ones that no saved lens replaces."""
    saved = catalog.lenses()
    names = {lens.name for lens in saved}
    return [*saved, *(lens for lens in STARTERS if lens.name not in names)]


def find_lens(catalog: LensesAndJudgements, name: str) -> Lens:
    """Returns the saved lens, else the built-in one. Raises UnknownLensError."""
    try:
        return catalog.lens(name)
    except UnknownLensError:
        if name in _STARTERS:
            return _STARTERS[name]
        raise UnknownLensError(name, [lens.name for lens in lenses_of(catalog)]) from None


def delete_lens(catalog: LensesAndJudgements, name: str) -> None:
    """Raises UnknownLensError, and InputError for a built-in lens, which cannot be deleted."""
    try:
        catalog.delete_lens(name)
    except UnknownLensError:
        if name in _STARTERS:
            raise InputError(
                f"The lens {name!r} is built in and cannot be deleted; save a lens of the same name to replace it."
            ) from None
        raise


def resolve_lens(
    catalog: LensesAndJudgements, lens: str | None, instruction: str | None, values: Sequence[str] | None = None
) -> tuple[str | None, tuple[LensValue, ...]]:
    """Resolves a lens to the instruction and values to search with.

    values: None takes those of the lens, an empty list none. Raises UnknownLensError, and InputError if both a lens and
    an instruction are given or the values are invalid.
    """
    if lens is None:
        return instruction, parse_values(values or ())
    if instruction is not None:
        raise InputError(f"Give the lens {lens!r} or an instruction, not both.")
    found = find_lens(catalog, lens)
    return found.query_instruction, parse_values(found.values if values is None else values)
