from __future__ import annotations

import subprocess
import sys

import pytest

# A thousand small blocks between two large ones that are kept: what is freed lies in the middle of the heap.
_PROGRAM = """
import sys
import ctypes, threading
from app.runtime.memory import release_memory, share_heaps

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
else:
    if sys.argv[1] == "shared":
        share_heaps()
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
    done = subprocess.run([sys.executable, "-c", _PROGRAM, case], capture_output=True, text=True, check=True)
    return [int(each) for each in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is not glibc")
def test_what_was_freed_goes_back_to_the_system() -> None:
    full, before, after = said_by("release")
    assert before > 200_000  # the C library has kept it
    assert after < before - 150_000, (full, before, after)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is not glibc")
def test_threads_share_few_heaps() -> None:
    assert said_by("shared")[0] <= 2 < said_by("own")[0]
