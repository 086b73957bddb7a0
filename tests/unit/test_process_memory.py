from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from embedder.model.weight_formats import multiplies_bfloat16

# A thousand small blocks between two large ones that are kept: what is freed lies in the middle of the heap.
_PROGRAM = """
import sys
import ctypes, threading
from app.runtime.memory import release_memory, limit_memory

def own():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

if sys.argv[1] == "release":
    blocks = [bytes(60_000) + bytes([number % 256]) for number in range(4_000)]
    kept = bytes(60_000) + b"."
    full = own()
    del blocks
    before = own()
    release_memory()
    print(full, before, own())
elif sys.argv[1].startswith("sizes"):
    import torch
    if sys.argv[1] == "sizes, few":
        limit_memory()
    weight = torch.ones(64, 64, dtype=torch.bfloat16)
    for rows in range(1, 601):
        torch.nn.functional.linear(torch.ones(rows, 64, dtype=torch.bfloat16), weight)
    release_memory()
    print(own())
else:
    if sys.argv[1] == "shared":
        limit_memory()
    barrier = threading.Barrier(12)
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    found = []
    def work():
        barrier.wait()
        found.append(libc.malloc(50_000) >> 26)  # an arena of a thread is 64 MB, and aligned to that
        barrier.wait()
    threads = [threading.Thread(target=work) for _ in range(12)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    print(len(set(found)))
"""


def said_by(case: str) -> list[int]:
    # What a command that ran in this process has set is not for the child.
    environment = {name: value for name, value in os.environ.items() if name != "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}
    command = [sys.executable, "-c", _PROGRAM, case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(each) for each in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is not glibc")
def test_what_was_freed_goes_back_to_the_system() -> None:
    full, before, after = said_by("release")
    assert before > 200_000  # the C library has kept it
    assert after < before - 150_000, (full, before, after)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is not glibc")
def test_threads_share_few_heaps() -> None:
    assert said_by("shared")[0] <= 2 < said_by("own")[0]


@pytest.mark.skipif(
    sys.platform != "linux" or not torch.backends.mkldnn.is_available(), reason="bfloat16 is not multiplied by oneDNN"
)
def test_products_of_few_sizes_are_kept() -> None:
    (few,), (many,) = said_by("sizes, few"), said_by("sizes")
    if many < few + 10_000 and not multiplies_bfloat16():
        pytest.skip("this processor's products of bfloat16 keep nothing")
    assert few < many - 50_000
