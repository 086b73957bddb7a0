"""Which files are found under the paths that a person names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors import InputError
from app.types.documents import Source, SourceFailure
from ingest.rows import RowFields
from ingest.sources import find_changed, find_files, outermost


@pytest.fixture
def folder(tmp_path):
    """Makes files with the given names below a folder, with the folders between."""

    def make(*names: str) -> Path:
        root = tmp_path / "library"
        root.mkdir(exist_ok=True)
        for name in names:
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("text")
        return root

    return make


def find(paths, **options):
    return list(find_files(paths, **options))


def names(found, root):
    return [each.path.relative_to(root).as_posix() for each in found if isinstance(each, Source)]


def reasons(found, root):
    return {
        Path(each.name).relative_to(root).as_posix(): each.reason for each in found if isinstance(each, SourceFailure)
    }


def test_folder_is_walked_in_a_fixed_order(folder):
    root = folder("b.txt", "a.md", "deep/er/c.tsv", "Dé jà #1.html")
    found = find([root])
    assert names(found, root) == ["Dé jà #1.html", "a.md", "b.txt", "deep/er/c.tsv"]
    assert [file.media_type for file in found] == [
        "text/html",
        "text/markdown",
        "text/plain",
        "text/tab-separated-values",
    ]
    assert found[0].uri == f"{root.as_uri()}/D%C3%A9%20j%C3%A0%20%231.html"


def test_uri_is_absolute_however_the_path_was_named(folder, monkeypatch):
    root = folder("sub/a.txt")
    monkeypatch.chdir(root)
    for name in ("sub/a.txt", "./sub/../sub", root / "sub"):
        assert [file.uri for file in find([name])] == [(root / "sub" / "a.txt").as_uri()]


def test_file_named_twice_is_found_once(folder):
    root = folder("a.txt", "b.txt")
    assert names(find([root / "b.txt", root, root / "a.txt"]), root) == ["b.txt", "a.txt"]


def test_hidden_files_are_left_out_unless_named(folder):
    root = folder("a.txt", ".hidden.txt", ".git/config.txt", "~$draft.docx", "sub/.cache/x.txt")
    found = find([root])
    assert names(found, root) == ["a.txt"]
    assert reasons(found, root) == {}
    assert names(find([root / ".hidden.txt"]), root) == [".hidden.txt"]


def test_unsupported_files_are_reported(folder):
    root = folder("a.txt", "film.mp4", "LICENSE", "x.unknown")
    for name in ("film.mp4", "x.unknown"):
        (root / name).write_bytes(bytes(range(256)))
    found = find([root, root / "film.mp4"])
    assert names(found, root) == ["LICENSE", "a.txt"]
    assert set(reasons(found, root)) == {"film.mp4", "x.unknown"}
    assert (
        reasons(found, root)["film.mp4"]
        == "This file cannot be read: it holds no text, and its format is unknown; save it as PDF or text."
    )
    assert [error.was_named for error in found if isinstance(error, SourceFailure)] == [True, False]


def test_missing_path_is_reported_and_the_rest_found(folder):
    root = folder("a.txt")
    found = find([root / "gone", root])
    assert names(found, root) == ["a.txt"]
    assert reasons(found, root) == {"gone": "there is no such file or folder"}


def test_globs_choose_among_the_files_of_folders(folder):
    root = folder("a.txt", "a.md", "notes/b.md", "notes/b.txt", "other/c.md")
    assert names(find([root], globs=["*.md"]), root) == ["a.md", "notes/b.md", "other/c.md"]
    assert names(find([root], globs=["notes/*", "a.txt"]), root) == ["a.txt", "notes/b.md", "notes/b.txt"]
    assert names(find([root / "a.txt"], globs=["*.md"]), root) == ["a.txt"]


def test_links_out_of_the_folder_are_reported_and_not_followed(folder, tmp_path):
    root = folder("a.txt")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("key")
    (root / "file.txt").symlink_to(secret / "key.txt")
    (root / "dir").symlink_to(secret)
    found = find([root])
    assert names(found, root) == ["a.txt"]
    assert set(reasons(found, root)) == {"file.txt", "dir"}
    assert "points outside" in reasons(found, root)["file.txt"]


def test_link_inside_the_folder_gives_each_file_once(folder):
    root = folder("z.txt", ".versions/3.md")
    (root / "a.txt").symlink_to("z.txt")
    (root / "current.md").symlink_to(".versions/3.md")
    assert names(find([root]), root) == ["current.md", "z.txt"]


def test_links_that_lead_nowhere_or_round_are_reported(folder):
    root = folder("a.txt", "sub/b.txt")
    (root / "broken.txt").symlink_to("gone.txt")
    (root / "loop.txt").symlink_to("loop.txt")
    (root / "sub" / "up").symlink_to(root)
    found = find([root])
    assert names(found, root) == ["a.txt", "sub/b.txt"]
    assert reasons(found, root) == {
        "broken.txt": "the link is broken",
        "loop.txt": "the link is broken",
        "sub/up": "links to folders are not followed",
    }


def test_folder_that_is_itself_a_link_is_meant(folder, tmp_path):
    root = folder("a.txt")
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    assert [file.uri for file in find([alias])] == [(root / "a.txt").as_uri()]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipe_is_not_read(folder):
    root = folder("a.txt")
    os.mkfifo(root / "pipe.txt")
    found = find([root])
    assert names(found, root) == ["a.txt"]
    assert reasons(found, root) == {"pipe.txt": "not a regular file"}


def test_excludes_and_globs_have_the_syntax_of_ignore_files(folder):
    root = folder("a.txt", "a.md", "drafts/b.md", "deep/drafts/c.md", "deep/d.md", "deep/er/e.md")
    assert names(find([root], excludes=["drafts/"]), root) == ["a.md", "a.txt", "deep/d.md", "deep/er/e.md"]
    assert names(find([root], globs=["deep/**/*.md"], excludes=["c.md"]), root) == ["deep/d.md", "deep/er/e.md"]
    assert names(find([root / "a.md"], excludes=["*.md"]), root) == ["a.md"]
    with pytest.raises(InputError, match="--exclude"):
        find([root], excludes=["!"])


def test_ignore_files_leave_out_below_their_folder(folder):
    root = folder("a.txt", "build/b.txt", "notes/a.txt", "notes/keep.txt", "notes/deep/keep.txt", "x.tmp.txt")
    (root / ".gitignore").write_text("build/\n*.tmp.txt\n!\n# a comment\nkeep.txt\n")
    (root / ".gircseignore").write_text("!x.tmp.txt\n")
    (root / "notes" / ".gircseignore").write_text("\ufeff/a.txt\n!keep.txt\n")
    (root / "notes" / "deep" / ".gitignore").write_text("*\n")
    assert names(find([root]), root) == ["a.txt", "x.tmp.txt", "notes/keep.txt"]


def test_ignored_folder_keeps_its_files_ignored(folder):
    root = folder("build/keep.txt", "a.txt")
    (root / ".gitignore").write_text("build/\n!build/keep.txt\n")
    assert names(find([root]), root) == ["a.txt"]


def test_changed_paths_are_found_as_the_whole_folder_finds_them(folder):
    root = folder("a.txt", "sub/b.txt", "sub/deep/c.md", "sub/.hidden/d.txt", "out/e.txt", "out/f.txt")
    (root / ".gitignore").write_text("out/f.txt\n")
    (root / "linked").symlink_to(root / "sub")

    def changed(*paths):
        return names(find_changed(root, [root / path for path in paths]), root)

    assert changed("") == names(find([root]), root) == ["a.txt", "out/e.txt", "sub/b.txt", "sub/deep/c.md"]
    assert changed("sub/deep", "sub/deep/c.md", "a.txt") == ["a.txt", "sub/deep/c.md"]
    assert changed("gone.txt", "sub/.hidden/d.txt", "sub/.hidden", "out/f.txt", "linked/b.txt", ".gitignore/x") == []
    assert changed("out/.gitignore") == ["out/e.txt"]
    assert changed(".gircseignore") == changed("")


def test_folder_where_everything_is_kept_is_not_taken_in(folder):
    root = folder("a.txt", "home/files/b.txt")
    assert names(find([root], without=root / "home"), root) == ["a.txt"]
    found = list(find_changed(root, [root, root / "home" / "files" / "b.txt"], without=root / "home"))
    assert found == find([root / "a.txt"])
    assert list(find_changed(root, [root / "home" / "files"], without=root / "home")) == []


def test_outermost_paths_are_those_below_no_other():
    paths = [Path(each) for each in ("/a/b/c", "/a/b", "/a/b c", "/a/b", "/d")]
    assert outermost(paths) == [Path("/a/b"), Path("/a/b c"), Path("/d")]


def test_sidecar_gives_title_and_metadata_and_is_no_document(folder):
    root = folder("paper.pdf", "paper.pdf.meta.json", "lonely.txt.meta.json", "plain.txt")
    (root / "paper.pdf.meta.json").write_text('{"title": "On Tides", "metadata": {"year": 2024, "open": true}}')
    paper, plain = [each for each in find([root]) if isinstance(each, Source)]
    assert (paper.title, paper.metadata) == ("On Tides", {"year": 2024, "open": True})
    assert (plain.title, plain.metadata) == ("", {})
    assert "no lonely.txt" in reasons(find([root]), root)["lonely.txt.meta.json"]
    assert "add that file instead" in reasons(find([root / "paper.pdf.meta.json"]), root)["paper.pdf.meta.json"]
    for path in ("paper.pdf.meta.json", "paper.pdf"):
        (found,) = find_changed(root, [root / path])
        assert found == paper


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\udcff", "not JSON"),
        ("[]", "write it as"),
        ('{"year": 2024}', "write it as"),
        ('{"title": 1}', "title must be a text"),
        ('{"metadata": 1}', "must be an object"),
        ('{"metadata": {"tags": ["a"]}}', "'tags' must be"),
        ('{"metadata": {"year": null}}', "'year' must be"),
    ],
)
def test_broken_sidecar_holds_its_document_back(folder, text, reason):
    root = folder("a.txt", "b.txt")
    (root / "a.txt.meta.json").write_text(text, errors="surrogateescape")
    found = find([root])
    assert names(found, root) == ["b.txt"]
    assert reason in reasons(found, root)["a.txt"]
    assert [error.was_named for error in found if isinstance(error, SourceFailure)] == [True]


def test_sidecar_that_is_a_link_is_not_followed(folder, tmp_path):
    root = folder("a.txt")
    (tmp_path / "secret.json").write_text('{"title": "secret"}')
    (root / "a.txt.meta.json").symlink_to(tmp_path / "secret.json")
    assert "it is a link" in reasons(find([root]), root)["a.txt"]


def test_rows_of_a_file_are_documents_when_asked_for(folder):
    root = folder("a.txt", "b.csv")
    (root / "b.csv").write_text("text,kind\nOne.,note\nTwo.,letter\n")
    found = find([root, root / "b.csv"], rows=RowFields())
    assert [each.uri.removeprefix(root.as_uri()) for each in found] == ["/a.txt", "/b.csv#line-2", "/b.csv#line-3"]
    assert [each.metadata for each in found] == [{}, {"kind": "note"}, {"kind": "letter"}]


def test_names_as_long_as_the_disk_allows_are_read(folder):
    name = "a" * 251 + ".txt"
    root = folder(name)
    assert names(find([root]), root) == [name]


def test_closed_folder_is_a_failure_only_if_it_was_named(folder, monkeypatch):
    root = folder("a.txt", "closed/b.txt")
    scan = os.scandir

    def refuse(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    (named,) = find([root / "closed"])
    assert (named.was_named, named.reason) == (True, "the folder cannot be opened (Permission denied)")
    (within,) = (each for each in find([root]) if isinstance(each, SourceFailure))
    assert not within.was_named
