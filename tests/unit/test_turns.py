from __future__ import annotations

import sys

from app.runtime.turns import take_short_turns


def test_turns_are_shorter_than_an_operation_of_a_model() -> None:
    before = sys.getswitchinterval()
    try:
        take_short_turns()
        assert sys.getswitchinterval() < 1e-4
    finally:
        sys.setswitchinterval(before)
