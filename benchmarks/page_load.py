"""Measures how long each page takes until a person can type or click: on loopback, with an empty and a filled cache.

Without --url it starts a service of its own, with no documents.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from playwright.sync_api import Browser, BrowserContext, sync_playwright

# Address, and the first field or part that must be there.
PAGES = (
    ("/", "#query textarea, #query input"),
    ("/compare", "#query textarea, #query input"),
    ("/documents", "#documents-collection input"),
    ("/evaluate", "#evaluate-collection input"),
    ("/about", "#health"),
)
Visit = tuple[float, float]
"""Seconds, and kB that came over the wire."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a running service, such as http://127.0.0.1:7860")
    parser.add_argument("--repeats", type=int, default=5, help="how often to open each page; the median counts")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is not installed; on Debian: apt install chromium")
    service = own_service() if options.url is None else nullcontext(options.url.rstrip("/"))
    with service as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        visit_twice(browser, url + PAGES[0][0], PAGES[0][1])  # the first of all also opens files on the server
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, median of {options.repeats}\n")
        print("| page | first visit, s | again, s | first visit, kB | again, kB |\n|---|---|---|---|---|")
        for path, field in PAGES:
            visits = [visit_twice(browser, url + path, field) for _ in range(options.repeats)]
            cold_s, cold_kb = medians([first for first, _ in visits])
            warm_s, warm_kb = medians([again for _, again in visits])
            print(f"| `{path}` | {cold_s:.2f} | {warm_s:.2f} | {cold_kb:,.0f} | {warm_kb:,.0f} |", flush=True)
        browser.close()


def medians(visits: Sequence[Visit]) -> Visit:
    return statistics.median(seconds for seconds, _ in visits), statistics.median(kb for _, kb in visits)


def visit_twice(browser: Browser, url: str, field: str) -> tuple[Visit, Visit]:
    context = browser.new_context()
    visits = visit(context, url, field), visit(context, url, field)
    context.close()
    return visits


def visit(context: BrowserContext, url: str, field: str) -> Visit:
    page = context.new_page()
    received = 0

    def count(event: dict[str, float]) -> None:
        nonlocal received
        received += int(event["encodedDataLength"])

    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.on("Network.loadingFinished", count)
    start = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.locator(field).first.wait_for()
    seconds = time.perf_counter() - start
    page.wait_for_load_state("load")
    page.close()
    return seconds, received / 1000


@contextmanager
def own_service() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gircse-load-") as home:
        command = [sys.executable, "-P", "-c", "from app.cli import main; main()", "up", "--port", "0"]
        environment = {**os.environ, "GIRCSE_HOME": home}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = next((line for line in process.stdout if line.startswith("Ready: ")), None)
            if said is None:
                sys.exit("The service ended before it was ready.")
            try:
                yield said.split()[1]
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
