"""The entry point of `gircse` and of `python -m gircse_search`: first checks that no folder hides the application."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

# A file of each top-level package, by which it is recognised.
PACKAGES = {
    "app": "cli.py",
    "embedder": "checkpoint.py",
    "ingest": "pipeline.py",
    "ui": "app.py",
    "sample": "library.jsonl",
}
_INTERRUPTED = 130  # exit code


def hiding_places() -> Iterator[tuple[str, str]]:
    """Each package that another of the same name hides, and the folder or file of that other one."""
    for name, mark in PACKAGES.items():
        spec = find_spec(name)
        if spec is None:
            continue
        places = [Path(place) for place in spec.submodule_search_locations or ()]
        if not any((place / mark).is_file() for place in places):
            yield name, str(places[0] if places else spec.origin)


def main() -> None:
    try:
        _run()
    except KeyboardInterrupt:  # before the application handles it: it is still being imported
        sys.exit(_INTERRUPTED)


def _run() -> None:
    if hidden := next(hiding_places(), None):
        name, place = hidden
        sys.exit(
            f"gircse: {place} hides the package {name!r} of gircse-search. Take its folder out of PYTHONPATH, or run "
            "gircse from another folder."
        )
    try:
        import_module("app.cli").main()
    except ModuleNotFoundError as error:
        if "--debug" in sys.argv or error.name is None or error.name.partition(".")[0] in PACKAGES:
            raise
        sys.exit(
            f"gircse: the package {error.name!r} is not installed. Run `pip install 'gircse-search[app]'`, which "
            "installs all that the commands need."
        )


if __name__ == "__main__":
    main()
