"""What `make audit` says: of flaws, of packages that nobody answered for, and offline."""

from __future__ import annotations

import pytest

from scripts import audit

SOUND = {"name": "a", "version": "1", "vulns": []}
FLAWED = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "told"),
    [
        ([SOUND], 0, "1 of 1 packages audited. No known vulnerabilities."),
        ([SOUND, SKIPPED], 0, "1 of 2 packages audited; no advisory source covers c. No known"),
        ([SOUND, FLAWED], 1, "  b 2: CVE-1, fixed in 2.1"),
        ([SKIPPED], 0, "NOT AUDITED: no advisory source covers any of 1 packages"),
    ],
)
def test_verdict(packages: list[dict[str, object]], code: int, told: str) -> None:
    ended, said = audit.verdict({"dependencies": packages})
    assert ended == code
    assert told in said


def test_without_a_network_it_says_that_nothing_was_audited(capsys: pytest.CaptureFixture[str]) -> None:
    address = "http://127.0.0.1:9/"  # where nobody listens
    assert audit.main("--vulnerability-service", "osv", "--osv-url", address, "--timeout", "1") == 0
    assert capsys.readouterr().out.startswith("NOT AUDITED: no advisory source responds (")
