"""A collection follows a folder: real files, catalog and pipeline; the toy embedder counts what is embedded."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.documents.intake import BATCH_SOURCES, FIRST_SOURCES, FolderMirror, Intake, documents_below, is_gone
from app.errors import ConflictError
from app.testing import text_source
from app.types.documents import DocumentKey, Source, SourceFailure
from app.types.search import SearchRequest
from ingest.sources import find_changed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    (root / "deep").mkdir(parents=True)
    for name in ("cat", "dog", "deep/tide"):
        (root / f"{name}.txt").write_text(f"A text about {name}.")
    return root


@pytest.fixture
def mirror_factory(toy_services, folder: Path) -> Callable[..., FolderMirror]:
    services = toy_services.services
    services.library.ensure_collection("library")
    return lambda: FolderMirror(services.library, services.catalog, "library", folder, find_changed)


@pytest.fixture
def mirror(mirror_factory: Callable[..., FolderMirror], toy_services) -> FolderMirror:
    """After its first look at the folder."""
    mirror = mirror_factory()
    assert len(mirror.sync_all().job_ids) == 3
    toy_services.work_off()
    toy_services.embedder.embedded_texts.clear()
    return mirror


def stored(toy_services, folder: Path) -> dict[str, str]:
    """Path below the folder → id of its document."""
    documents = toy_services.services.catalog.documents("library")
    return {each.uri.removeprefix(folder.as_uri() + "/"): each.id for each in documents}


def test_nothing_happens_when_nothing_changed(mirror: FolderMirror, folder: Path) -> None:
    again = mirror.sync_all()
    assert (again.job_ids, again.errors) == ([], [])
    assert mirror.sync([folder / "cat.txt", folder / "never.txt"]).job_ids == []


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names are Unicode there")
def test_a_name_that_is_no_utf_8_is_not_gone(mirror: FolderMirror, folder: Path, toy_services) -> None:
    file = folder / os.fsdecode(b"caf\xe9.txt")
    file.write_text("A text about coffee.")
    assert len(mirror.sync_all().job_ids) == 1
    toy_services.work_off()
    file.write_text("Another text about coffee.")
    again = mirror.sync_all()
    toy_services.work_off()
    assert (len(again.job_ids), again.errors, again.deleted) == (1, [], 0)
    assert "caf%E9.txt" in stored(toy_services, folder)
    file.unlink()
    assert mirror.sync_all().deleted == 1


def test_edits_additions_and_deletions_are_followed(mirror: FolderMirror, folder: Path, toy_services) -> None:
    before = stored(toy_services, folder)
    (folder / "cat.txt").write_text("Another text.")
    (folder / "new.txt").write_text("A new text.")
    (folder / "dog.txt").unlink()
    followed = mirror.sync([folder / name for name in ("cat.txt", "new.txt", "dog.txt")])
    assert (len(followed.job_ids), followed.moved, followed.deleted) == (3, 0, 1)
    toy_services.work_off()
    after = stored(toy_services, folder)
    assert after.keys() == {"cat.txt", "new.txt", "deep/tide.txt"}
    assert after["cat.txt"] == before["cat.txt"]
    assert toy_services.index.count("library") == 3


def test_moved_folder_keeps_its_documents_and_embeds_nothing(mirror: FolderMirror, folder: Path, toy_services) -> None:
    before = stored(toy_services, folder)
    (folder / "deep").rename(folder / "shore")
    (folder / "cat.txt").rename(folder / "shore" / "tomcat.txt")
    followed = mirror.sync([folder / name for name in ("deep", "shore", "cat.txt", "shore/tomcat.txt")])
    assert (followed.moved, followed.deleted) == (2, 0)
    toy_services.work_off()
    after = stored(toy_services, folder)
    assert after["shore/tide.txt"] == before["deep/tide.txt"]
    assert after["shore/tomcat.txt"] == before["cat.txt"]
    assert after.keys() == {"shore/tide.txt", "shore/tomcat.txt", "dog.txt"}
    assert toy_services.embedder.embedded_texts == []
    (hit, *_) = toy_services.services.search.search(search_for("cat")).hits
    assert hit.document.uri.endswith("/shore/tomcat.txt")
    assert hit.document.title == "tomcat"


def search_for(text: str, **filters: str) -> SearchRequest:
    return SearchRequest(query=text, collection="library", filters=filters)


def test_copy_whose_original_goes_is_no_move(mirror: FolderMirror, folder: Path, toy_services) -> None:
    shutil.copy(folder / "cat.txt", folder / "copy.txt")
    mirror.sync([folder / "copy.txt"])
    before = stored(toy_services, folder)
    (folder / "cat.txt").unlink()
    followed = mirror.sync([folder])
    assert (followed.moved, followed.deleted) == (0, 1)
    toy_services.work_off()
    assert stored(toy_services, folder)["copy.txt"] == before["copy.txt"]


def test_file_under_two_moved_names_is_one_move_and_one_addition(mirror: FolderMirror, folder: Path) -> None:
    shutil.copy(folder / "cat.txt", folder / "one.txt")
    (folder / "cat.txt").rename(folder / "two.txt")
    followed = mirror.sync([folder])
    assert (len(followed.job_ids), followed.moved, followed.deleted) == (2, 1, 0)


def test_sidecar_that_changes_alone_changes_payloads_and_embeds_nothing(
    mirror: FolderMirror, folder: Path, toy_services
) -> None:
    sidecar = folder / "cat.txt.meta.json"
    sidecar.write_text(json.dumps({"metadata": {"year": 2024}}))
    assert len(mirror.sync([sidecar]).job_ids) == 1
    toy_services.work_off()
    (hit,) = toy_services.services.search.search(search_for("text", year="2024"), highlight=False).hits
    assert hit.document.metadata["year"] == 2024
    sidecar.unlink()
    assert len(mirror.sync([sidecar]).job_ids) == 1
    toy_services.work_off()
    assert toy_services.services.search.search(search_for("text", year="2024")).hits == ()
    assert toy_services.embedder.embedded_texts == []


def test_a_title_in_a_sidecar_is_embedded_with_the_text(mirror: FolderMirror, folder: Path, toy_services) -> None:
    sidecar = folder / "cat.txt.meta.json"
    sidecar.write_text(json.dumps({"title": "Cats"}))
    assert len(mirror.sync([sidecar]).job_ids) == 1
    toy_services.work_off()
    assert toy_services.embedder.embedded_texts == ["Cats\nA text about cat."]


def test_what_is_ignored_by_now_is_not_gone(mirror: FolderMirror, folder: Path, toy_services) -> None:
    before = stored(toy_services, folder)
    (folder / ".gircseignore").write_text("*.txt\n")
    assert mirror.sync([folder / ".gircseignore"]).job_ids == []
    assert stored(toy_services, folder) == before


def test_broken_sidecar_leaves_the_document_as_it_was(mirror: FolderMirror, folder: Path) -> None:
    (folder / "cat.txt.meta.json").write_text("{")
    followed = mirror.sync([folder])
    assert [Path(error.name).name for error in followed.errors] == ["cat.txt"]
    assert followed.job_ids == []


def test_folder_that_is_replaced_while_it_is_followed_deletes_nothing(
    mirror: FolderMirror, folder: Path, toy_services
) -> None:
    before = stored(toy_services, folder)
    folder.rename(folder.with_name("away"))
    with pytest.raises(ConflictError, match="Is its disk mounted"):
        mirror.sync([folder / "cat.txt"])
    folder.mkdir()  # as a mount point without its disk
    with pytest.raises(ConflictError, match="replaced or unmounted"):
        mirror.sync([folder / "cat.txt", folder])
    assert stored(toy_services, folder) == before
    assert not any(job.kind == "delete" for job in toy_services.services.catalog.jobs())


def test_folder_that_is_empty_at_the_start_deletes_nothing(
    mirror: FolderMirror, mirror_factory: Callable[..., FolderMirror], folder: Path
) -> None:
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    with pytest.raises(ConflictError, match="is empty, although the collection has 3 documents"):
        mirror_factory().sync_all()


def test_last_file_of_a_watched_folder_may_go(mirror: FolderMirror, folder: Path, toy_services) -> None:
    shutil.rmtree(folder / "deep")
    for name in ("cat.txt", "dog.txt"):
        (folder / name).unlink()
    assert mirror.sync([folder]).deleted == 3
    toy_services.work_off()
    assert stored(toy_services, folder) == {}


def test_rows_belong_to_their_file(mirror: FolderMirror, folder: Path, toy_services) -> None:
    file = folder / "rows.csv"
    file.write_text("text\nA row.\n")
    library = toy_services.services.library
    intake = Intake(library, "library")
    row = Source(name="row", uri=f"{file.as_uri()}#1", media_type="text/plain", data=b"A row.")
    (taken,) = intake.add_all([row])
    assert not isinstance(taken, SourceFailure)
    library.add_document("library", text_source("https://example.org/", b"x"))
    below = documents_below(toy_services.services.catalog, "library", [file])
    assert [key.uri for key in below] == [row.uri]
    assert not is_gone(below[0])
    file.unlink()
    assert is_gone(below[0])
    assert len(documents_below(toy_services.services.catalog, "library", [folder / "deep", file])) == 2


def test_file_that_cannot_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    def key(name: str) -> DocumentKey:
        return DocumentKey("id", (tmp_path / name).as_uri(), "hash")

    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "here ä#1.txt").touch()
    assert is_gone(key("nowhere.txt"))
    assert is_gone(key("here ä#1.txt/below.txt"))
    assert not is_gone(key("here ä#1.txt"))
    assert not is_gone(key("loop"))


def test_source_that_cannot_be_kept_is_an_error(toy_services, tmp_path: Path) -> None:
    toy_services.services.library.ensure_collection("library")
    intake = Intake(toy_services.services.library, "library")
    for changes, reason in (
        ({"metadata": {"page": 1}}, "'page' is reserved"),
        ({"path": tmp_path / "gone.txt"}, "No such file"),
        ({"title": "a\x00b"}, "NUL"),
    ):
        source = Source(**{"name": "a", "uri": "a", "media_type": "text/plain", "data": b"x", **changes})
        (error,) = intake.add_all([source])
        assert isinstance(error, SourceFailure)
        assert reason in error.reason


def test_work_begins_while_more_is_taken_in(toy_services) -> None:
    library, catalog = toy_services.services.library, toy_services.services.catalog
    library.ensure_collection("library")
    sources = (Source(f"{n}", f"text://{n}", "text/plain", data=b"Text %d." % n) for n in range(FIRST_SOURCES + 1))
    next(Intake(library, "library").add_all(sources))
    assert len(catalog.jobs(limit=1000)) == FIRST_SOURCES
    assert len(list(sources)) == 1


def test_one_bad_source_does_not_spoil_its_batch(toy_services, tmp_path: Path) -> None:
    toy_services.services.library.ensure_collection("library")
    sources = [Source(f"{n}", f"text://{n}", "text/plain", data=b"Text %d." % n) for n in range(BATCH_SOURCES + 20)]
    sources[7] = replace(sources[7], path=tmp_path / "gone.txt")
    sources[8] = replace(sources[8], uri="text://" + "x" * 2000)
    told = list(Intake(toy_services.services.library, "library").add_all([SourceFailure("before", "bad"), *sources]))
    assert [each.name for each in told if isinstance(each, SourceFailure)] == ["before", "7", "8"]
    added = [each.uri for each in told if not isinstance(each, SourceFailure)]
    assert added == [each.uri for each in sources if each.name not in ("7", "8")]
    assert len(toy_services.services.catalog.jobs(limit=1000)) == BATCH_SOURCES + 18


def test_what_comes_slowly_need_not_wait_for_a_whole_batch(toy_services, monkeypatch: pytest.MonkeyPatch) -> None:
    library = toy_services.services.library
    library.ensure_collection("library")
    monkeypatch.setattr("app.documents.intake.BATCH_S", 0)

    def pages() -> Iterator[Source]:
        for number in range(3):
            assert len(toy_services.services.catalog.documents("library")) == number
            yield Source("page", f"https://example.org/{number}", "text/plain", data=b"Page.")

    assert len(list(Intake(library, "library").add_all(pages()))) == 3


def test_bytes_taken_by_a_removal_meanwhile_are_kept_again(toy_services, monkeypatch: pytest.MonkeyPatch) -> None:
    services = toy_services.services
    services.library.ensure_collection("library")
    submit_many = type(services.catalog).submit_many
    turns: list[int] = []

    def after_a_removal(catalog, collection, documents, **options):
        turns.append(len(documents))
        if len(turns) == 1:  # it looked for rows before these were there
            services.blobs.discard(documents[0].content_hash, is_needed=lambda: False)
        return submit_many(catalog, collection, documents, **options)

    monkeypatch.setattr(type(services.catalog), "submit_many", after_a_removal)
    sources = [Source(f"{n}", f"text://{n}", "text/plain", data=b"Text %d." % n) for n in range(3)]
    outcomes = services.library.add_documents("library", sources)
    assert turns == [3, 1]
    assert len(services.catalog.jobs()) == 3
    assert all(services.blobs.has(outcome[0].content_hash) for outcome in outcomes)
