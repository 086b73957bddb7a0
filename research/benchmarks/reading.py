"""How much of what a person sees in documents is in the text that was read of them: other programs show the documents,
and their words are looked for in ours. Needs poppler-utils and mupdf-tools, for Office formats LibreOffice, and
Chromium for HTML and mail.

    python -m research.benchmarks.reading --files FOLDER --out after.json
    PYTHONPATH=OLD_CHECKOUT OLD_CHECKOUT/.venv/bin/python reading.py --files FOLDER --out before.json
    python -m research.benchmarks.reading --compare before.json after.json > table.md

FOLDER holds the files of `reading_files.tsv` as OWNER+NAME/PATH; `--fetch` puts them there with git.
"""

from __future__ import annotations

import argparse
import csv
import email.policy
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from email.parser import BytesParser
from itertools import groupby, pairwise
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple, TypeAlias

from embedder.command.standard_output import run_program

LIST = Path(__file__).with_name("reading_files.tsv")
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
_FEWEST_WORDS = 20
_MOST_PAGES = 20
_MARGIN_LINES, _ANYWHERE = 6, 1_000  # at the top of a page, and at its bottom; a footer of slides may be anywhere
_OFFICE = frozenset(("doc", "docx", "docm", "odt", "rtf", "ppt", "pptx", "odp", "xls", "xlsx", "ods"))
_SLIDES = frozenset(("ppt", "pptx", "odp"))
_SHEETS = frozenset(("xls", "xlsx", "ods"))
_HTML = frozenset(("html", "htm", "xhtml"))
_WORD = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff]|[^\W\d_\u2e80-\u9fff\uf900-\ufaff]+|\d+")
_LAST_WORD, _FIRST_WORD = re.compile(r"[^\W\d_]+\Z"), re.compile(r"[^\W\d_]+")
_JOINED = re.compile(r"(?<=\w)[-\u2010\u00ad][ \t]*\n\s*(?=\w)")
_WITHIN = re.compile(r"(?<=\w)[-\u2010\u2011\u00ad'’](?=\w)(?<!\d.(?=\d))")  # not within dates
_TIMEOUT_S = 120
_BATCH = 25  # Office files
# All sheets with their cells as shown, divided by tabs, in UTF-8.
_AS_CELLS = "csv:Text - txt - csv (StarCalc):9,34,76,1,,0,false,false,true,false,false,-1"
# In the order of the United States, or years first. Two digits are of the years 1930 to 2029.
_DATE = re.compile(r"\b(?:(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)|(\d{4})-(\d{1,2})-(\d{1,2}))\b")
_CENTURY = 30
_APART = ""  # between words that do not stand beside each other
# innerText has what only browsers without scripts show, all choices of a list, and no values of fields. Behind a
# vertical tab: what it lacks of pictures and of the numbers of lists.
_SEEN = """() => {
    document.querySelectorAll("noscript, option:not(:checked)").forEach(each => each.remove());
    document.querySelectorAll("details").forEach(each => { each.open = true; });
    const unseen = "[type=hidden], [type=password], [type=checkbox], [type=radio]";
    document.querySelectorAll(`input:not(${unseen}), textarea`).forEach(each => {
        if (each.checkVisibility()) each.replaceWith(" " + (each.value || each.placeholder) + " ");
    });
    const beside = [];
    document.querySelectorAll("[alt], [aria-label]").forEach(each => {
        beside.push(each.getAttribute("alt") || "", each.getAttribute("aria-label") || "");
    });
    document.querySelectorAll("ol").forEach(list => {
        for (let number = 0; number <= list.children.length; number++) beside.push((list.start || 0) + number);
    });
    return document.body.innerText + "\v" + beside.join(" ");
}"""
_NEARLY_ALL = 0.99
_OTHER = "\0"  # between what two programs show
_BESIDE = "\v"


_Cells: TypeAlias = dict[tuple[str, int, int], str]  # by sheet, row and column


class Listed(NamedTuple):
    repository: str
    commit: str
    path: str

    def below(self, folder: Path) -> Path:
        return folder / self.repository.replace("/", "+") / self.path

    @property
    def format(self) -> str:
        return self.path.rsplit(".", 1)[-1].lower()


class Score(NamedTuple):
    """Shares: of the words that are shown, `found` are in the text, `in_order` beside the same word as where they are
    shown; of the words of the text, `extra` are shown nowhere, and `again` stand there more often than they are shown,
    as the names of columns in every row."""

    file: str
    format: str
    words: int
    found: float
    in_order: float
    extra: float
    again: float
    seconds: float
    note: str = ""


def words_of(text: str) -> list[str]:
    """Hyphens and apostrophes count for nothing: programs differ in which of them they keep at the ends of lines."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(_WITHIN.sub("", _JOINED.sub("", plain)))


def agreed_words(text: str) -> tuple[list[str], list[str]]:
    """Those that all programs show, in the order of the first, and those that only one shows."""
    first, *others = (words_of(each) for each in text.split(_OTHER))
    if not others:
        return first, []
    left = Counter(others[0])
    agreed, alone = list[str](), list[str]()
    for word in first:
        (agreed if left[word] > 0 else alone).append(word)
        left[word] -= 1
    return agreed, [*alone, *left.elements()]


def score(shown: Sequence[str], own: Sequence[str], doubtful: Sequence[str] = ()) -> tuple[float, float, float, float]:
    """The figures of `Score`. A word that stands alone between two of `_APART` is in order where it is found."""
    words = list(filter(None, shown))
    left, is_found = Counter(own), list[bool]()
    for word in words:
        is_found.append(left[word] > 0)
        left[word] -= is_found[-1]
    pairs = Counter(pairwise(own))
    is_beside = list[bool]()
    for is_apart, group in groupby(shown, _APART.__eq__):
        if is_apart:
            continue
        begin, own_words = len(is_beside), list(group)
        is_beside += [is_found[begin]] if len(own_words) == 1 else [False] * len(own_words)
        for at, pair in enumerate(pairwise(own_words), begin):
            if pairs[pair] > 0:
                pairs[pair] -= 1
                is_beside[at] = is_beside[at + 1] = True
    extra = sum((Counter(own) - Counter(dict.fromkeys([*words, *doubtful], len(own)))).values())
    return (
        sum(is_found) / len(words),
        sum(is_beside) / len(words),
        extra / max(1, len(own)),
        (sum(left.values()) - extra) / max(1, len(own)),
    )


def without_margins(text: str, margin_lines: int = _MARGIN_LINES) -> tuple[str, str]:
    """Pages, where a line at the top or the bottom of several stands once, as in an Office file; and the lines left
    out, which may be others that differ in numbers alone."""
    seen: set[str] = set()
    kept, repeated = list[str](), list[str]()
    for page in text.split("\f"):
        lines = [line for line in page.split("\n") if line.strip()]
        for number, line in enumerate(lines):
            is_margin = min(number, len(lines) - 1 - number) < margin_lines
            plain = re.sub(r"\d+", "#", " ".join(line.split()))
            (repeated if is_margin and plain in seen else kept).append(line)
            if is_margin:
                seen.add(plain)
        kept.append("")
    return "\n".join(kept), "\n".join(repeated)


def unbroken(text: str, own: Collection[str]) -> str:
    """`text` with words whole that a narrow box or column breaks over two lines. `own` has the word, and lacks one of
    its pieces."""
    lines: list[str] = []
    for line in unicodedata.normalize("NFKC", text).casefold().split("\n"):
        end = _LAST_WORD.search(lines[-1]) if lines else None
        begin = _FIRST_WORD.match(line)
        if end and begin and end[0] + begin[0] in own and not (end[0] in own and begin[0] in own):
            lines[-1] += line
        else:
            lines.append(line)
    return "\n".join(lines)


def of_sheets(cells: Iterable[str], printed: str) -> tuple[list[str], list[str]]:
    """The words of cells, each cell apart; then those of `printed` pages that stand beside the cells. And further words
    that are neither sought nor extra: numbers beside the cells, which are mostly of axes and pages, and pieces of cells
    that narrow columns cut off or print without a gap."""
    shown = list[str]()
    for cell in cells:
        shown += [*words_of(_DATE.sub(_in_iso, cell)), _APART]
    known, whole = set(shown), "".join(shown)
    doubtful = list[str]()
    for line in printed.split("\n"):
        for word in words_of(line):
            is_sought = not (word in known or word.isdigit() or _is_piece(word, whole))
            (shown if is_sought else doubtful).append(word)
        shown.append(_APART)
    return shown, doubtful


def _in_iso(date: re.Match[str]) -> str:
    """A date of digits alone as our texts have it. LibreOffice shows most in the order of the United States."""
    month, day, year = date.group(1, 2, 3) if date[1] else date.group(5, 6, 4)
    return f"{year if len(year) > 2 else ('19' if int(year) >= _CENTURY else '20') + year}-{month:0>2}-{day:0>2}"


def _is_piece(word: str, whole: str) -> bool:
    """Whether `whole` has the word, or its begin and its end."""
    return any(word[:end] in whole and word[end:] in whole for end in range(1, len(word) + 1))


class Shown:
    """The text of documents as other programs show them, which takes longer than reading them: `kept` is the folder of
    those that were shown before."""

    def __init__(self, files: ExitStack, kept: Path | None = None) -> None:
        self._files = files
        self._kept = kept
        self._page: Any = None
        self._profile: Path | None = None

    def text(self, path: Path, format: str) -> tuple[str, str]:
        """The text, and lines of it that are left out because they repeat others."""
        shown = self._shown_or_kept(path, format)
        if format in _SLIDES:
            pages = ("\f".join(each.split("\f")[:_MOST_PAGES]) for each in shown.split(_OTHER))
            kept, repeated = zip(*(without_margins(each, _ANYWHERE) for each in pages), strict=True)
            return _OTHER.join(kept), "\n".join(repeated)
        if format in _HTML:
            shown, _, beside = shown.partition(_BESIDE)
            return shown, beside
        return without_margins(shown) if format in _OFFICE else (shown, "")

    def cells(self, path: Path, format: str) -> tuple[list[str], list[str]]:
        """What the cells of all sheets show, and what those show that are calculated anew each time: random numbers."""
        kept = self._kept_file(path, f"{format}.cells")
        if kept is None or not kept.is_file():
            found = self._cells(path)
            if kept is None:
                return found[0]
            kept.write_text(json.dumps(found[0]), "utf-8")
        shown, changing = json.loads(kept.read_text("utf-8"))
        return shown, changing

    def _cells(self, *paths: Path) -> list[tuple[list[str], list[str]]]:
        return [_unchanged(*both) for both in zip(self._cells_once(*paths), self._cells_once(*paths), strict=True)]

    def _cells_once(self, *paths: Path) -> list[_Cells]:
        """The cells of each workbook. LibreOffice names the files of sheets after those of workbooks, which may share
        a name."""
        with tempfile.TemporaryDirectory() as folder:
            named = [Path(folder, f"{number}{path.suffix}") for number, path in enumerate(paths)]
            for link, path in zip(named, paths, strict=True):
                link.symlink_to(path.resolve())
            self._convert(_AS_CELLS, folder, *named)
            sheets = [sorted(Path(folder).glob(f"{number}-*.csv")) for number in range(len(paths))]
            return [{(sheet.name, *at): text for sheet in own for at, text in _cells_of(sheet)} for own in sheets]

    def prepare_cells(self, paths: Iterable[Path]) -> None:
        """As `prepare`, for the cells of the workbooks among `paths`."""
        kept = {path: self._kept_file(path, f"{path.suffix[1:].lower()}.cells") for path in paths}
        waiting = [(path, file) for path, file in kept.items() if file is not None and not file.is_file()]
        waiting = [(path, file) for path, file in waiting if path.suffix[1:].lower() in _SHEETS]
        for start in range(0, len(waiting), _BATCH):
            batch = waiting[start : start + _BATCH]
            with suppress(subprocess.TimeoutExpired):
                for (_, file), found in zip(batch, self._cells(*(path for path, _ in batch)), strict=True):
                    if any(found):
                        file.write_text(json.dumps(found), "utf-8")

    def prepare(self, paths: Iterable[Path]) -> None:
        """Shows the Office files among `paths`, many with one start of LibreOffice, which takes longer than most files.
        Needs a folder for what is kept. `text` shows the others alone: those with the same name as another, and those
        after one at which the program ended."""
        formats = {path: path.suffix[1:].lower() for path in paths}
        kept = {path: self._kept_file(path, _kind(format)) for path, format in formats.items() if format in _OFFICE}
        waiting = [path for path, file in kept.items() if file is not None and not file.is_file()]
        for start in range(0, len(waiting), _BATCH):
            by_name = {path.stem: path for path in waiting[start : start + _BATCH]}
            with tempfile.TemporaryDirectory() as folder:
                with suppress(subprocess.TimeoutExpired):
                    self._print(folder, *by_name.values())
                for name, path in by_name.items():
                    printed, file = Path(folder, f"{name}.pdf"), kept[path]
                    if printed.is_file() and file is not None:
                        file.write_text(_words_of_office(printed, formats[path]), "utf-8")

    def _shown_or_kept(self, path: Path, format: str) -> str:
        kept = self._kept_file(path, _kind(format))
        if kept is None:
            return self._shown(path, format)
        if not kept.is_file():
            kept.write_text(self._shown(path, format), "utf-8")
        return kept.read_text("utf-8")

    def _kept_file(self, path: Path, format: str) -> Path | None:
        if self._kept is None:
            return None
        self._kept.mkdir(parents=True, exist_ok=True)
        return self._kept / f"{hashlib.sha256(path.read_bytes()).hexdigest()}.{format}.txt"

    def _shown(self, path: Path, format: str) -> str:
        if format == "pdf":
            return self._pdf(path)
        if format in _OFFICE:
            return self._office(path, format)
        if format in _HTML:
            return self._html(path.resolve().as_uri())
        return self._mail(path)

    def _pdf(self, path: Path) -> str:
        """As two programs show it: each of them takes letters apart, or for others, that the page shows whole."""
        return _as_two_programs_show(path)

    def _office(self, path: Path, format: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            self._print(folder, path)
            return "".join(_words_of_office(printed, format) for printed in Path(folder).glob("*.pdf"))

    def _print(self, folder: str, *paths: Path) -> None:
        """Writes a PDF of each file into `folder`. Raises TimeoutExpired."""
        self._convert("pdf", folder, *paths)

    def _convert(self, kind: str, folder: str, *paths: Path) -> None:
        if self._profile is None:
            self._profile = Path(self._files.enter_context(tempfile.TemporaryDirectory()))
        profile = f"-env:UserInstallation={self._profile.as_uri()}"
        _run("soffice", profile, "--headless", "--convert-to", kind, "--outdir", folder, *map(str, paths))

    def _html(self, address: str) -> str:
        if self._page is None:
            from playwright.sync_api import sync_playwright

            program = self._files.enter_context(sync_playwright())
            browser = program.chromium.launch(executable_path=CHROMIUM)
            self._page = browser.new_context(java_script_enabled=False, offline=True).new_page()
        self._page.goto(address, wait_until="domcontentloaded", timeout=1000 * _TIMEOUT_S)
        return str(self._page.evaluate(_SEEN))

    def _mail(self, path: Path) -> str:
        message = BytesParser(policy=email.policy.default).parsebytes(path.read_bytes())
        texts = [str(message.get(name, "")) for name in ("Subject", "From", "To", "Cc", "Date")]
        body = message.get_body(("plain", "html"))
        parts = [body, *(part for part in message.iter_attachments() if part.get_content_maintype() == "text")]
        for part in filter(None, parts):
            content = str(part.get_content())
            if part.get_content_subtype() == "html":
                with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
                    file.write(f'<meta charset="utf-8">{content}')
                    file.flush()
                    content = self._html(Path(file.name).as_uri()).partition(_BESIDE)[0]
            texts.append(content)
        return "\n".join(texts)


def _cells_of(sheet: Path) -> Iterator[tuple[tuple[int, int], str]]:
    with sheet.open(encoding="utf-8", errors="replace", newline="") as file:
        for number, row in enumerate(csv.reader(file, delimiter="\t")):
            for column, text in enumerate(row):
                if text.strip():
                    yield (number, column), text


def _unchanged(first: _Cells, second: _Cells) -> tuple[list[str], list[str]]:
    """The texts of the cells that show the same both times, and those of the others."""
    changing = {place for place, text in first.items() if second.get(place) != text}
    shown = [text for place, text in first.items() if place not in changing]
    return shown, [each[place] for each in (first, second) for place in sorted(changing) if place in each]


def _kind(format: str) -> str:
    """The kind of what is kept: of slides, what two programs show; of pages, also what stands beside their text."""
    return f"{format}.both" if format in _SLIDES or format in _HTML else format


def _words_of_office(printed: Path, format: str) -> str:
    """The words of a printed file. Programs differ in the letters of slides that they take apart."""
    return (
        _as_two_programs_show(printed) if format in _SLIDES else _run("pdftotext", "-enc", "UTF-8", str(printed), "-")
    )


def _as_two_programs_show(path: Path) -> str:
    shown = _run("pdftotext", "-enc", "UTF-8", "-l", str(_MOST_PAGES), str(path), "-")
    return shown + _OTHER + _run("mutool", "draw", "-q", "-F", "txt", str(path), f"1-{_MOST_PAGES}")


def _run(*command: str) -> str:
    """What the program writes. Raises TimeoutExpired after its whole process group has ended: a script starts
    LibreOffice, and one that hangs would take all later files."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            written, _ = process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return written.decode("utf-8", "replace")


def read(path: Path) -> tuple[str, str]:
    """Our text, of as many pages as are compared, and what was told of it."""
    from app.errors import DocumentError
    from ingest.readers.document import read_document
    from ingest.readers.limits import ReadLimits

    try:  # pdftotext recognises nothing either
        found = read_document(path.read_bytes(), uri=path.name, limits=ReadLimits(max_recognized_pages=0))
    except DocumentError as error:
        return "", str(error)
    starts = found.page_starts
    text = found.text[: starts[_MOST_PAGES]] if len(starts) > _MOST_PAGES else found.text
    return text, " ".join(f"{key} {value}" for key, value in found.metadata.items() if key.startswith("unread"))


def measure(listed: Iterable[Listed], folder: Path, kept: Path | None = None) -> Iterator[Score]:
    with ExitStack() as files:
        shown = Shown(files, kept)
        found = [(each, each.below(folder)) for each in listed if each.below(folder).is_file()]
        shown.prepare(path for _, path in found)
        shown.prepare_cells(path for _, path in found)
        for each, path in found:
            try:
                shown_text, repeated = shown.text(path, each.format)
                cells, changing = shown.cells(path, each.format) if each.format in _SHEETS else ([], [])
            except (subprocess.TimeoutExpired, OSError, LookupError, ValueError, AttributeError) as error:
                print(f"{each.path}: not shown ({type(error).__name__})", file=sys.stderr)
                continue
            if len(agreed_words(shown_text)[0]) < _FEWEST_WORDS:
                continue
            started = time.perf_counter()
            text, note = read(path)
            spent = time.perf_counter() - started
            own = words_of(text)
            if each.format in _OFFICE:
                shown_text = _OTHER.join(unbroken(each, set(own)) for each in shown_text.split(_OTHER))
            words, doubtful = agreed_words(shown_text)
            if each.format in _SHEETS:
                words, doubtful = of_sheets(cells, shown_text)
                doubtful += words_of("\n".join(changing))
            yield Score(
                f"{each.repository}/{each.path}",
                each.format,
                len(list(filter(None, words))),
                *score(words, own, [*doubtful, *words_of(repeated)]),
                spent,
                note,
            )


def write_files(listed: Sequence[Listed], folder: Path, *, repositories: Path | None = None) -> None:
    """Writes the files that `folder` lacks: from the bare clones in `repositories`, else from GitHub.

    Raises SystemExit for a repository or a file that cannot be read.
    """
    by_repository: dict[tuple[str, str], list[Listed]] = defaultdict(list)
    for each in listed:
        if not each.below(folder).is_file():
            by_repository[each.repository, each.commit].append(each)
    for (repository, commit), files in by_repository.items():
        with ExitStack() as opened:
            if repositories is None:
                clone = fetch(repository, commit, Path(opened.enter_context(tempfile.TemporaryDirectory())))
            else:
                clone = clone_of(repository, repositories)
            for each in files:
                content = _git(clone, "show", f"{commit}:{each.path}", of=f"{repository}/{each.path}")
                each.below(folder).parent.mkdir(parents=True, exist_ok=True)
                each.below(folder).write_bytes(content)


def fetch(repository: str, commit: str, clone: Path) -> Path:
    """Makes `clone` a bare clone of that commit alone."""
    address = f"https://github.com/{repository}"
    _git(clone, "init", "-q", "--bare", of=address)
    _git(clone, "fetch", "-q", "--depth", "1", address, commit, of=address)
    return clone


def clone_of(repository: str, repositories: Path) -> Path:
    own = repositories / repository.replace("/", "+")
    for folder in (own / "repo" / ".git", own / "repo", own / ".git", own):
        if (folder / "HEAD").is_file():
            return folder
    raise SystemExit(f"{own} holds no clone of https://github.com/{repository}. Clone it there with --bare.")


def _git(clone: Path, command: str, *arguments: str, of: str) -> bytes:
    ended = subprocess.run(["git", "--git-dir", str(clone), command, *arguments], capture_output=True, check=False)
    if ended.returncode:
        raise SystemExit(f"git could not {command} {of}: {ended.stderr.decode().strip()}")
    return ended.stdout


def listed_files(path: Path = LIST) -> list[Listed]:
    with path.open(encoding="utf-8", newline="") as file:
        return [Listed(*row) for row in csv.reader(file, delimiter="\t")]


def table(before: Sequence[Score], after: Sequence[Score]) -> str:
    """A row for each format, of the files that both runs have, and the worst ten."""
    lines = [
        "| format | files | found: mean | in order: mean | files with 99 % found | extra: mean | again: mean |",
        "|---|---|---|---|---|---|---|",
    ]
    old = {each.file: each for each in before}
    pairs = [(old[each.file], each) for each in after if each.file in old]
    for format in sorted({each.format for _, each in pairs}):
        own = [pair for pair in pairs if pair[1].format == format]
        cells = [
            " → ".join(f"{100 * value([pair[side] for pair in own]):.1f} %" for side in (0, 1))
            for value in (_mean("found"), _mean("in_order"), _share_of_good, _mean("extra"), _mean("again"))
        ]
        lines.append(f"| {format} | {len(own)} | {' | '.join(cells)} |")
    worst = sorted((each for _, each in pairs), key=lambda each: each.found)[:10]
    lines += ["", "| worst | words | found | in order | extra | note |", "|---|---|---|---|---|---|"]
    for each in worst:
        numbers = " | ".join(f"{100 * value:.1f} %" for value in (each.found, each.in_order, each.extra))
        lines.append(f"| `{each.file}` | {each.words} | {numbers} | {each.note[:120]} |")
    return "\n".join(lines)


def _mean(name: str) -> Callable[[Sequence[Score]], float]:
    return lambda scores: mean(getattr(each, name) for each in scores)


def _share_of_good(scores: Sequence[Score]) -> float:
    return mean(each.found >= _NEARLY_ALL for each in scores)


def _load(path: Path) -> list[Score]:
    return [Score(**row) for row in json.loads(path.read_text("utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.benchmarks.reading", description=__doc__)
    parser.add_argument("--files", type=Path, help="the folder of the files")
    parser.add_argument("--fetch", action="store_true", help="put the listed files there first")
    parser.add_argument("--formats", nargs="+", help="of these alone: pdf html docx …")
    parser.add_argument("--shown", type=Path, help="a folder that keeps what other programs show, for further runs")
    parser.add_argument("--out", type=Path, help="where the figures go")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"), help="print a table of two runs")
    options = parser.parse_args()
    if (options.files is None) == (options.compare is None):
        parser.error("Give either --files or --compare.")
    if options.compare:
        print(table(*map(_load, options.compare)))
        return
    listed = [each for each in listed_files() if not options.formats or each.format in options.formats]
    if options.fetch:
        write_files(listed, options.files)
    scores = []
    for each in measure(listed, options.files, options.shown):
        scores.append(each)
        print(f"{each.found:.3f} {each.in_order:.3f} {each.extra:.3f} {each.words:6} {each.file} {each.note}")
        if options.out:
            options.out.write_text(json.dumps([each._asdict() for each in scores], indent=1), "utf-8")


if __name__ == "__main__":
    run_program(main)
