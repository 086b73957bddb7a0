"""One thread per process in which models compute on the CPU, whichever thread calls; documents have a second one.

Each computing thread has its own OpenMP threads. With more of these than cores, as in a server that answers each
request in another thread, they sleep after every operation instead of spinning briefly, and a short query takes two to
three times as long, even in the first thread.
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
    """Runs `function` in the model thread, after earlier calls, and returns or raises its outcome."""
    if threading.current_thread().name.startswith(_NAME):
        return function(*args, **kwargs)
    future = model_thread().submit(function, *args, **kwargs)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # the caller is gone, after Ctrl-C for instance
        raise


def model_thread() -> ThreadPoolExecutor:
    """The executor of the model thread; runs one call at a time."""
    return _thread_of(os.getpid())


def second_model_thread() -> ThreadPoolExecutor:
    """A new executor; its user must split the cores between both threads."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{_NAME}-2")


@cache
def _thread_of(process: int) -> ThreadPoolExecutor:
    """The executor of a process's model thread. A forked child has no threads, so it gets its own."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=_NAME)
