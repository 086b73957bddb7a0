from __future__ import annotations

import sys

from app.runtime.thread_switching import set_switch_interval


def test_turns_are_shorter_than_an_operation_of_a_model() -> None:
    before = sys.getswitchinterval()
    try:
        set_switch_interval()
        assert sys.getswitchinterval() < 1e-4
    finally:
        sys.setswitchinterval(before)
