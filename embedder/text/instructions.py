"""The 95 task instructions of the GIRCSE paper: 91 rows of Table 11 (MTEB), 4 of Table 12 (IntentEmotion, NYT).

The suffix -Q or -C means that the instruction is for the queries or the corpus only; a dataset with both has two rows.
Without a suffix, the instruction is for both sides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from embedder.errors import EmbedderError

Role = Literal["query", "document", "both"]
ROLES: tuple[Role, ...] = get_args(Role)


class UnknownTaskError(EmbedderError, LookupError):
    """The registry has no task of this name."""


@dataclass(frozen=True, slots=True)
class TaskInstruction:
    task: str  # as printed in the paper, with its suffix
    role: Role
    instruction: str


@cache
def load_instructions() -> tuple[TaskInstruction, ...]:
    """All rows, in the paper's order."""
    text = files("embedder.text").joinpath("instructions.json").read_text(encoding="utf-8")
    return tuple(TaskInstruction(**row) for row in json.loads(text))


def instruction_for(task: str, role: Role) -> str | None:
    """The instruction for one side of a task; the name may have its suffix or not.

    Returns None if the paper gives this side no instruction, as for the corpus of most retrieval datasets.
    """
    if role not in ROLES:
        raise ValueError(f"Unknown role {role!r}. Use one of: {', '.join(ROLES)}.")
    rows = [row for row in load_instructions() if task in (row.task, _without_suffix(row))]
    if not rows:
        raise UnknownTaskError(_unknown_task_message(task))
    return next((row.instruction for row in rows if row.role in (role, "both")), None)


def _without_suffix(row: TaskInstruction) -> str:
    return row.task if row.role == "both" else row.task[: -len("-Q")]


def _unknown_task_message(task: str) -> str:
    names = sorted({_without_suffix(row) for row in load_instructions()})
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[name] for name in get_close_matches(task.lower(), by_lower, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(near)}?" if near else "`load_instructions()` lists all tasks."
    return f"No task named {task!r} among the {len(names)} tasks of the paper. {hint}"
