"""Hooks of mkdocs.yml: README.md is the first page; links of pages that leave docs/ lead to copies of those files."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_HOME = {"README.md": "index.md"}


def site_path(path: str) -> str:
    """The path in the site of a file of the repository."""
    return _HOME.get(path, path.removeprefix("docs/"))


def linked_files(path: str) -> set[str]:
    """The files of the repository that a Markdown file links to. Folders are left out."""
    text = (ROOT / path).read_text(encoding="utf-8")
    targets = {posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2])) for link in _LINK.finditer(text)}
    return {target for target in targets if (ROOT / target).is_file()}


def on_files(files: Files, *, config: Any) -> Files:
    """Adds README.md and the linked files outside docs/, and the files that these link to."""
    waiting = ["README.md", *(f"docs/{page.src_uri}" for page in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            source = str(ROOT / path)
            files.append(File.generated(config, site_path(path), abs_src_path=source))
        if path.endswith(".md"):
            new = linked_files(path) - seen
            seen |= new
            waiting += [each for each in new if not each.startswith("docs/")]
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Rewrites relative links from the places of the repository to those of the site."""
    homes = {site: path for path, site in _HOME.items()}
    uri = page.file.src_uri
    path = homes.get(uri, f"docs/{uri}" if (ROOT / "docs" / uri).is_file() else uri)
    folder = posixpath.dirname(path)

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if "://" in link[2] or not (ROOT / target).exists():
            return link[0]
        if (ROOT / target).is_dir():  # a site has no listings: its first page
            target = min((str(each.relative_to(ROOT)) for each in (ROOT / target).glob("*.md")), default=target)
        return f"{link[1]}{posixpath.relpath(site_path(target), posixpath.dirname(uri) or '.')}{link[3]}"

    return _LINK.sub(rewritten, markdown)
