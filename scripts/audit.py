"""Audits the packages of the image for known vulnerabilities (pip-audit). Exits with 1 if there are any. Lists
packages that no advisory source covered: offline these are all packages, which counts as neither pass nor failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedder.command.standard_output import run_program

# PyPI's torch: advisories use its version numbers, and it has more dependencies than the CPU build.
LOCKS = [Path(__file__).parent.parent / "docker" / name for name in ("requirements.txt", "torch-cuda.txt")]


def verdict(report: Mapping[str, Any]) -> tuple[int, str]:
    """Exit code and message for a report in pip-audit's JSON format."""
    packages = report["dependencies"]
    unanswered = [package for package in packages if "skip_reason" in package]
    flaws = [
        f"  {package['name']} {package['version']}: {flaw['id']}, "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no release'}"
        for package in packages
        for flaw in package.get("vulns", [])
    ]
    if len(unanswered) == len(packages):
        return 0, f"NOT AUDITED: no advisory source covers any of {len(packages)} packages. Try again online."
    summary = f"{len(packages) - len(unanswered)} of {len(packages)} packages audited"
    if unanswered:
        summary += f"; no advisory source covers {', '.join(package['name'] for package in unanswered)}"
    if flaws:
        return 1, "\n".join([f"{summary}. Known vulnerabilities:", *flaws])
    return 0, f"{summary}. No known vulnerabilities."


def main(*options: str) -> int:
    command = [sys.executable, "-m", "pip_audit", *(f"--requirement={lock}" for lock in LOCKS), "--disable-pip"]
    command += ["--no-deps", "--format", "json", "--progress-spinner", "off", *options]
    audit = subprocess.run(command, capture_output=True, text=True)
    try:
        report = json.loads(audit.stdout)
    except json.JSONDecodeError:
        reason = audit.stderr.strip().splitlines()[-1:] or ["no output of pip-audit"]
        print(f"NOT AUDITED: no advisory source responds ({reason[0][:300]}). Try again online.")
        return 0
    code, summary = verdict(report)
    print(summary)
    return code


if __name__ == "__main__":
    run_program(lambda: main(*sys.argv[1:]))
