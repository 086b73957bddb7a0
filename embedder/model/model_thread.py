"""The one thread of a process in which models compute on the CPU, whichever thread asks; documents have a second one.

Each thread that computes has threads of OpenMP of its own. Where there are more of these than cores, as in a server
that answers each request in another thread, they go to sleep after every operation instead of waiting a moment, and one
short query takes two to three times as long: also in the thread that was there first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

_NAME = "gircse-model"
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def on_model_thread(
    function: Callable[Arguments, Answer], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Answer:
    """What `function` returns or raises, computed there; after what was asked for before."""
    if threading.current_thread().name.startswith(_NAME):
        return function(*args, **kwargs)
    future = model_thread().submit(function, *args, **kwargs)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # its caller has gone, after Ctrl-C for instance
        raise


def model_thread() -> ThreadPoolExecutor:
    """It runs one call after the other."""
    return _thread_of(os.getpid())


def second_model_thread() -> ThreadPoolExecutor:
    """A new one, for those who share out the cores."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{_NAME}-2")


@cache
def _thread_of(process: int) -> ThreadPoolExecutor:
    """A fork takes no threads along, so a child has one of its own."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=_NAME)
