"""The collections of one data folder: one shard of Qdrant Edge each, and a table of their names and aliases.

The table is authoritative: shard folders that it does not name are left by a crash and are removed. If the table itself
is damaged or lost, all folders are moved to another folder and kept.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import qdrant_edge as edge
from pydantic import BaseModel, Field, ValidationError

from app.edge.changes import Changes
from app.edge.connection import replace_file
from app.edge.errors import RefusedRequestError, unknown_collection
from app.edge.messages import AliasAction, CreateCollection
from app.edge.process import PUT_ASIDE
from app.edge.values import PointId

log = logging.getLogger(__name__)

_EDGE_FAULT = Exception  # Edge raises plain exceptions for internal errors
_FORBIDDEN_IN_NAMES = frozenset('<>:"/\\|?*\0\x1f')
_LONGEST_NAME = 255
_SEGMENTS = "segments"  # subfolder of a shard
MOST_OPEN = 512  # each holds eight threads, of which a system grants a service some thousands


class CollectionEntry(BaseModel):
    folder: str
    config: CreateCollection
    awaits_optimizing: bool = False  # requested and not finished


class NameTable(BaseModel):
    collections: dict[str, CollectionEntry] = Field(default_factory=dict)
    aliases: dict[str, str] = Field(default_factory=dict)


class Shards:
    """The collections of a data folder. Not thread-safe. The server calls it only from its event loop, since every Edge
    call holds the GIL anyway."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "shards"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._table_file = data_dir / "collections.json"
        self._table = self._read_table()
        self._open: dict[str, edge.EdgeShard] = {}  # the one used last comes last
        self._written: set[str] = set()
        self._changes: dict[str, Changes] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._sweep()

    def names(self) -> list[str]:
        return sorted(self._table.collections)

    def aliases(self, collection: str | None = None) -> list[tuple[str, str]]:
        if collection is not None:
            collection = self.resolve(collection)
        return sorted(pair for pair in self._table.aliases.items() if collection in (None, pair[1]))

    def resolve(self, name: str) -> str:
        """The collection of a name or alias. Raises RefusedError (404)."""
        name = self._table.aliases.get(name, name)
        if name not in self._table.collections:
            raise unknown_collection(name)
        return name

    def config(self, name: str) -> CreateCollection:
        return self._table.collections[self.resolve(name)].config

    def shard(self, name: str) -> edge.EdgeShard:
        """The shard of a collection, opened at first use, so that a damaged shard does not affect others."""
        name = self.resolve(name)
        folder = self.folder(name)
        if name not in self._open:
            self._make_room()
            self._open[name] = edge.EdgeShard.load(path=str(folder))
        elif not (folder / _SEGMENTS).exists():
            # Its memory-mapped files still work until they are closed; then all new writes would be lost.
            raise RefusedRequestError(500, f"the files of the collection were removed from {folder} while it was open")
        self._open[name] = shard = self._open.pop(name)
        return shard

    def write_lock(self, name: str) -> asyncio.Lock:
        """The lock to hold while writing to a collection, or while its files must not change."""
        name = self._table.aliases.get(name, name)
        if name not in self._table.collections:
            return asyncio.Lock()
        return self._locks.setdefault(name, asyncio.Lock())

    def update_points(
        self, name: str, operation: edge.UpdateOperation, points: Iterable[PointId] | edge.Filter
    ) -> None:
        """Run an operation. `points` are the points that it may change, recorded for a running optimization."""
        changes = self._changes.get(self.resolve(name))
        if changes is not None:
            changes.note_points(self._chosen(name, points) if isinstance(points, edge.Filter) else points)
        self._update(name, operation)

    def update_schema(self, name: str, operation: edge.UpdateOperation) -> None:
        self._update(name, operation)
        changes = self._changes.get(self.resolve(name))
        if changes is not None:
            changes.note_schema(operation)

    def create(self, name: str, config: CreateCollection) -> None:
        _check_name(name)
        if name in self._table.collections or name in self._table.aliases:
            raise RefusedRequestError(409, f"Wrong input: Collection `{name}` already exists!")
        if not config.dense and not config.sparse_vectors:
            raise RefusedRequestError(400, "Wrong input: a collection needs at least one vector")
        folder = uuid.uuid4().hex
        self._make_room()
        shard = edge.EdgeShard.create(path=str(self._folder / folder), config=config.to_edge())
        table = self._table.model_copy(deep=True)
        table.collections[name] = CollectionEntry(folder=folder, config=config)
        self._save(table)
        self._open[name] = shard

    def delete(self, name: str) -> bool:
        entry = self._table.collections.get(name)
        if entry is None:
            return False
        table = self._table.model_copy(deep=True)
        del table.collections[name]
        table.aliases = {alias: target for alias, target in table.aliases.items() if target != name}
        self._save(table)
        self._written.discard(name)
        self._locks.pop(name, None)
        if shard := self._open.pop(name, None):
            _close(shard, name)
        shutil.rmtree(self._folder / entry.folder, ignore_errors=True)  # the next start removes any rest
        return True

    def change_aliases(self, actions: list[AliasAction]) -> None:
        """Apply all actions atomically."""
        table = self._table.model_copy(deep=True)
        for action in actions:
            if create := action.create_alias:
                _check_name(create.alias_name)
                if create.collection_name not in table.collections:
                    raise unknown_collection(create.collection_name)
                if create.alias_name in table.collections:
                    raise RefusedRequestError(409, f"Wrong input: Collection `{create.alias_name}` already exists!")
                table.aliases[create.alias_name] = create.collection_name
            if delete := action.delete_alias:
                table.aliases.pop(delete.alias_name, None)
            if rename := action.rename_alias:
                _check_name(rename.new_alias_name)
                if rename.old_alias_name not in table.aliases:
                    raise RefusedRequestError(404, f"Not found: Alias `{rename.old_alias_name}` does not exists!")
                table.aliases[rename.new_alias_name] = table.aliases.pop(rename.old_alias_name)
        self._save(table)

    def folder(self, name: str) -> Path:
        return self._folder / self._table.collections[self.resolve(name)].folder

    def new_folder(self) -> Path:
        """A folder for a shard that will `replace` another. After a crash it is removed, as it is not in the table."""
        return self._folder / uuid.uuid4().hex

    def awaits_optimizing(self, name: str) -> bool:
        return self._table.collections[self.resolve(name)].awaits_optimizing

    def mark(self, name: str, *, awaits_optimizing: bool, **fields: object) -> None:
        self._alter(self.resolve(name), awaits_optimizing=awaits_optimizing, **fields)

    def start_noting(self, name: str) -> Changes:
        return self._changes.setdefault(self.resolve(name), Changes())

    def stop_noting(self, name: str) -> None:
        self._changes.pop(name, None)

    def replace(self, name: str, folder: Path, shard: edge.EdgeShard, config: CreateCollection) -> Path:
        """Replace a collection's shard by the one of `folder` atomically. Returns the folder of the old shard."""
        former, closing = self.folder(name), self.shard(name)
        self._alter(name, folder=folder.name, config=config, awaits_optimizing=False)
        self._open[name] = shard
        self._written.discard(name)
        closing.close()
        return former

    def flush(self) -> None:
        """Write changes since the last flush from the write-ahead logs to the segments."""
        written, self._written = sorted(self._written), set()
        for name in written:
            try:
                self._open[name].flush()
            except _EDGE_FAULT as error:
                log.error("Cannot flush the collection %s: %s", name, error)

    def close(self) -> None:
        self.flush()
        while self._open:
            name, shard = self._open.popitem()
            _close(shard, name)

    def _make_room(self) -> None:
        """Close shards that were used least recently, except those whose files must not change now."""
        idle = [name for name in self._open if name not in self._changes and not self._is_locked(name)]
        for name in idle[: max(0, len(self._open) + 1 - MOST_OPEN)]:
            self._written.discard(name)  # closing flushes
            _close(self._open.pop(name), name)

    def _is_locked(self, name: str) -> bool:
        return name in self._locks and self._locks[name].locked()

    def _update(self, name: str, operation: edge.UpdateOperation) -> None:
        self.shard(name).update(operation=operation)
        self._written.add(self.resolve(name))

    def _chosen(self, name: str, condition: edge.Filter) -> list[Any]:
        points = self.shard(name).info().points_count
        request = edge.ScrollRequest(filter=condition, limit=max(1, points), with_payload=False, with_vector=False)
        return [record.id for record in self.shard(name).scroll(scroll=request)[0]]

    def _alter(self, name: str, **fields: object) -> None:
        table = self._table.model_copy(deep=True)
        table.collections[name] = table.collections[name].model_copy(update=fields)
        self._save(table)

    def _read_table(self) -> NameTable:
        if not self._table_file.exists() and not any(self._folder.iterdir()):
            return NameTable()
        try:
            return NameTable.model_validate_json(self._table_file.read_bytes())
        except (FileNotFoundError, ValidationError) as error:
            aside = self._folder.parent / PUT_ASIDE.format(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
            aside.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                self._table_file.replace(aside / self._table_file.name)
            self._folder.replace(aside / self._folder.name)
            self._folder.mkdir()
            log.error("The table of collections is lost (%s); all shards were moved to %s", type(error).__name__, aside)
            return NameTable()

    def _save(self, table: NameTable) -> None:
        replace_file(self._table_file, table.model_dump_json(indent=1))
        self._table = table

    def _sweep(self) -> None:
        known = {entry.folder for entry in self._table.collections.values()}
        for folder in self._folder.iterdir():
            if folder.name not in known:
                # A dying optimizing process may still write; the next start removes any rest.
                shutil.rmtree(folder, ignore_errors=True)


def _close(shard: edge.EdgeShard, name: str) -> None:
    """Close a shard, which also flushes it. Logs the error if files are damaged."""
    try:
        shard.close()
    except _EDGE_FAULT as error:
        log.error("Cannot close the collection %s: %s", name, error)


def _check_name(name: str) -> None:
    if not name or name in (".", "..") or len(name) > _LONGEST_NAME or _FORBIDDEN_IN_NAMES & set(name):
        raise RefusedRequestError(400, f"Wrong input: {name!r} cannot name a collection: use letters, digits, - and _")
