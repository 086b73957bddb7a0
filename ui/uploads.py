"""Files that a browser has uploaded, and no other file or address that a request may name.

Gradio checks this too, but not for a page mounted into FastAPI: it asks first whether the page was "launched".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gradio as gr
from gradio.utils import get_upload_folder, is_in_or_equal

from app.errors import InputError

MAX_FILES = 50
MAX_FILE_BYTES = 50 * 1024 * 1024


def accept_uploads_only(field: gr.File) -> gr.File:
    """Without this, Gradio copies any file of the server, or fetches any address, before a handler is asked."""
    move_to_cache = field.async_move_resource_to_block_cache

    async def move_uploads_only(path: str | Path | None) -> str | None:
        return await move_to_cache(require_upload(path))

    field.async_move_resource_to_block_cache = move_uploads_only  # type: ignore[method-assign, assignment]
    return field


def require_upload(path: object) -> Path:
    """The path, where it is a file inside the upload folder, with links followed."""
    if not isinstance(path, (str, Path)) or not is_in_or_equal(path, get_upload_folder()) or not Path(path).is_file():
        raise InputError("That file was not uploaded here. Choose it again.")
    return Path(path)


@contextmanager
def taken_uploads(paths: object) -> Iterator[list[Path]]:
    """The files; the uploads are removed once all of them are taken, and kept when one cannot be."""
    if not isinstance(paths, list) or not paths:
        raise InputError("Choose at least one file first.")
    if len(paths) > MAX_FILES:
        raise InputError(
            f"At most {MAX_FILES} files at once, not {len(paths)}. `gircse ingest FOLDER` takes any number."
        )
    files = [require_upload(path) for path in paths]
    for path in files:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path.name} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are allowed here.")
    yield files
    for path in files:
        path.unlink(missing_ok=True)
