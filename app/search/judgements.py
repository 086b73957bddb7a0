"""Makes valid lenses and judgements from a caller's values."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from app.errors import EmptyQueryError, InputError
from app.search.request_checks import check_instruction, check_query
from app.search.value_syntax import parse_values
from app.types.documents import Judgement, Lens, require_text, utc_now

MAX_NAME_CHARACTERS = 80
MAX_NOTE_CHARACTERS = 2000
BEST_GRADE = 3
LOCAL_PERSON = "local"  # the user of this machine, or of a service without access control


def new_lens(
    name: str,
    query_instruction: str,
    *,
    document_instruction: str | None = None,
    note: str = "",
    values: Sequence[str] = (),
    is_stored: bool = False,
) -> Lens:
    """Checks and normalises a lens. Raises InputError. is_stored: it may be of an earlier release, which did not limit
    the length of instructions.
    """
    name = require_text(name, name="name of the lens").strip()
    if not name or len(name) > MAX_NAME_CHARACTERS or any(map(_is_control, name)):
        raise InputError(
            f"{name[:MAX_NAME_CHARACTERS]!r} cannot name a lens: use 1 to {MAX_NAME_CHARACTERS} characters of one line."
        )
    if not is_stored:
        check_instruction(query_instruction, name="query instruction")
        check_instruction(document_instruction, name="document instruction")
    if not query_instruction.strip():
        raise InputError(f"The lens {name!r} has no query instruction; write how it should interpret a query.")
    if len(require_text(note, name="note")) > MAX_NOTE_CHARACTERS:
        raise InputError(f"A note has at most {MAX_NOTE_CHARACTERS} characters, not {len(note)}.")
    checked_values = tuple(map(str, parse_values(values)))
    return Lens(name, query_instruction.strip(), document_instruction, note, checked_values)


def new_judgement(
    document_id: str,
    *,
    query: str,
    instruction: str,
    grade: int,
    judged_by: str = LOCAL_PERSON,
    is_stored: bool = False,
) -> Judgement:
    """Checks a judgement and stamps it with the current time. Raises InputError. is_stored: it may be of an earlier
    release, which did not limit the length of its texts.
    """
    if not query.strip():
        raise EmptyQueryError("The query is empty: a judgement grades how well a document answers a query.")
    if is_stored:
        require_text(query, name="query")
        require_text(instruction, name="instruction")
    else:
        check_query(query)
        check_instruction(instruction)
    if not 0 <= grade <= BEST_GRADE:
        raise InputError(f"A grade is from 0 (not relevant) to {BEST_GRADE} (perfect), not {grade}.")
    return Judgement(document_id, query, instruction, grade, judged_by, utc_now())


def _is_control(character: str) -> bool:
    return unicodedata.category(character).startswith(("C", "Zl", "Zp")) and character not in "\u200c\u200d"
