"""README, tutorial and how-tos: every block runs in order, and prints the output that the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from documented_pages import PAGES, ROOT, blocks_of, unrendered_tables
from gircse_program import Gircse, Server
from page_runner import PageRunner, is_as_shown
from warm_shell import WarmShell

SAMPLE = "sample"
# Its home is the one that `gircse up --sample` has filled for the other tests of this folder.
README = "README.md"
# Seconds each, and what a new person reads next; the others need minutes together. The tutorial needs a home without
# the failed jobs of other tests.
QUICK_PAGES = [
    "docs/tutorial.md",
    *(
        f"docs/how-to/{name}.md"
        for name in ("answer-questions", "control-access", "ingest-a-folder", "install-without-make")
    ),
]
MARKDOWN = [
    path.relative_to(ROOT).as_posix()
    for folder in ("docs", "embedder", "research", "sample")
    for path in sorted((ROOT / folder).rglob("*.md"))
] + [path.name for path in sorted(ROOT.glob("*.md"))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmShell]:
    with WarmShell(tmp_path_factory.mktemp("shell")) as shell:
        yield shell


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A home that `gircse up --sample` has filled and left; filled at the first call."""

    @cache
    def fill() -> Path:
        gircse = Gircse(home=tmp_path_factory.mktemp("sample") / "home", settings={})
        with gircse.serving("--sample") as server:
            server.wait_until_idle(SAMPLE)
        return gircse.home

    return fill


def carry_out(runner: PageRunner, text: str) -> None:
    with runner:
        for block in blocks_of(text):
            runner.run(block)
    for reason in runner.left_out:
        print(reason)


class TestPages:
    @pytest.mark.parametrize("page", PAGES)
    def test_every_block_is_run_or_says_why_not(self, page: str) -> None:
        assert blocks_of(read(page)) or "```" not in read(page)

    @pytest.mark.parametrize("page", PAGES)
    def test_reasons_name_files_that_exist(self, page: str) -> None:
        reasons = " ".join(block.argument for block in blocks_of(read(page)) if block.kind == "skip")
        assert [
            name for name in re.findall(r"(?:tests|docs)/[\w/.-]+\.\w+", reasons) if not (ROOT / name).exists()
        ] == []

    def test_no_page_installs_from_an_index_that_lacks_the_package(self) -> None:
        """One page says how to install, with --find-links for the folder of built wheels."""
        asked = re.compile(r"pip install ['\"]?gircse-(search|embedder|base|270m)")
        assert [page for page in PAGES if asked.search(read(page))] == []

    @pytest.mark.parametrize("page", PAGES)
    def test_no_block_that_is_run_administers_the_machine(self, page: str) -> None:
        """The tests may run as root, and such a block would then change the machine."""
        commands = re.compile(r"\b(sudo|useradd|systemctl|apt-get|/etc/systemd)\b")
        run = [block for block in blocks_of(read(page)) if block.kind not in ("skip", "file", "output")]
        assert [f"{page}:{block.line}" for block in run if commands.search(block.text)] == []

    def test_no_table_is_shown_as_text(self) -> None:
        assert [f"{page}:{line}" for page in MARKDOWN for line in unrendered_tables(read(page))] == []

    def test_a_first_reader_gets_what_is_shown(
        self, shell: WarmShell, sample_gircse: Gircse, sample_server: Server, tmp_path: Path
    ) -> None:
        port = int(sample_server.url.rsplit(":", 1)[1])
        settings = {"GIRCSE_HOME": str(sample_gircse.home)}
        carry_out(PageRunner(README, tmp_path, shell, settings=settings, ports={7860: port}), read(README))

    @pytest.mark.parametrize(
        "page",
        [
            pytest.param(page, marks=[] if page in QUICK_PAGES else [pytest.mark.long])
            for page in PAGES
            if page != README
        ],
    )
    def test_a_reader_gets_what_is_shown(
        self, page: str, shell: WarmShell, sample_home: Callable[[], Path], tmp_path: Path
    ) -> None:
        carry_out(PageRunner(page, tmp_path, shell, sample_home), read(page))


class TestTheRunner:
    @pytest.fixture
    def run(self, shell: WarmShell, tmp_path: Path) -> Callable[[str], PageRunner]:
        def run(text: str) -> PageRunner:
            runner = PageRunner("page.md", tmp_path, shell)
            carry_out(runner, text)
            return runner

        return run

    def test_blocks_share_folder_and_variables(self, run: Callable[[str], PageRunner]) -> None:
        run(
            "```sh\nmkdir work && cd work\nname=gircse\n```\n\n<!-- run: file a.txt -->\n```\none\ntwo\n```\n\n"
            "```sh\ncat a.txt\necho $name\n```\n\n<!-- run: output -->\n```\none\n...\ngircse\n```\n"
        )

    @pytest.mark.parametrize(
        ("shown", "printed", "is_equal"),
        [
            ("a  0.36\nb", "a 0.35   b\n", True),
            ("a 0.36", "a 0.46", False),
            ("took ... ms", "took 12 ms", True),
            ("took ... ms", "took 12 ms more", False),
            ("one\n...\ntwo", "one\n1\n2\ntwo", True),
            ("version 11", "version 12", False),
        ],
    )
    def test_numbers_may_differ_a_little_and_words_may_not(self, shown: str, printed: str, is_equal: bool) -> None:
        assert is_as_shown(shown, printed) is is_equal

    def test_another_output_fails_with_its_line(self, run: Callable[[str], PageRunner]) -> None:
        with pytest.raises(AssertionError, match=r"page\.md:6 shows\s+2\s+but this is printed:\s+1"):
            run("```sh\necho 1\n```\n\n<!-- run: output -->\n```\n2\n```\n")

    @pytest.mark.parametrize("block", ["```sh\nfalse\necho on\n```", "```python\nraise ValueError\n```"])
    def test_an_error_in_a_block_fails_the_page(self, run: Callable[[str], PageRunner], block: str) -> None:
        with pytest.raises(AssertionError, match=r"page\.md:1 ended with 1"):
            run(block)

    def test_a_block_that_is_left_out_says_why(self, run: Callable[[str], PageRunner]) -> None:
        runner = run(
            "<!-- run: skip asks a provider -->\n```sh\nfalse\n```\n\n"
            "<!-- run: needs no-such-program -->\n```sh\nfalse\n```"
        )
        assert runner.left_out == ["page.md:2: asks a provider", "page.md:7: no-such-program is not here"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("```\ntext\n```", "line 1: a block of “” is not run"),
            ("<!-- run: skip -->\n```sh\nls\n```", "line 2: the mark skip says nothing"),
            ("<!-- run: output -->\n", "line 1: no block follows"),
            ("<!-- run: sometimes -->\n```sh\nls\n```", "line 1: not a mark"),
            ("text\n\n    ls\n", "line 3: an indented block"),
        ],
    )
    def test_a_block_without_a_mark_is_an_error(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            blocks_of(text)

    def test_a_row_outside_a_table_is_found(self) -> None:
        assert unrendered_tables("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n\n```\n| x |\n```\n") == [5]
