"""How many connections a server may have before it can open no more files."""

from __future__ import annotations

from functools import cache

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_SPARE = 192  # for the model, the catalog, stored files, the index and child processes
_ENOUGH = 8_192  # some systems allow a billion, and programs exist that close each of them
_FEW = 16


@cache
def room_for_connections() -> int:
    """At the first call it raises the process's limit of open files, often 1,024, to what the system allows.

    A server without a free file descriptor cannot answer any request, since it needs files to do so.
    """
    if resource is None:
        return _ENOUGH  # sockets are no files there
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENOUGH
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):  # macOS has a second limit
            wanted = soft
    return max(max(wanted, soft) - _SPARE, _FEW)
