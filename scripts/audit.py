"""Looks up known vulnerabilities of the packages of the image (pip-audit). Ends with 1 where there are some, and says
which packages nobody answered for: offline that is all of them, which is neither a pass nor a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Those of PyPI's torch, under whose version advisories are, and which brings more packages than the CPU build.
LOCKS = [Path(__file__).parent.parent / "docker" / name for name in ("requirements.txt", "torch-cuda.txt")]


def verdict(report: Mapping[str, Any]) -> tuple[int, str]:
    """Exit code, and what to say, of a report in pip-audit's JSON."""
    packages = report["dependencies"]
    unanswered = [each for each in packages if "skip_reason" in each]
    found = [
        f"  {each['name']} {each['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no release'}"
        for each in packages
        for flaw in each.get("vulns", [])
    ]
    if len(unanswered) == len(packages):
        return 0, f"NOT AUDITED: no advisory source answers for any of {len(packages)} packages. Ask again online."
    told = f"{len(packages) - len(unanswered)} of {len(packages)} packages audited"
    if unanswered:
        told += f"; no advisory source answers for {', '.join(each['name'] for each in unanswered)}"
    if found:
        return 1, "\n".join([f"{told}. Known vulnerabilities:", *found])
    return 0, f"{told}. No known vulnerabilities."


def main(*options: str) -> int:
    command = [sys.executable, "-m", "pip_audit", *(f"--requirement={lock}" for lock in LOCKS), "--disable-pip"]
    command += ["--no-deps", "--format", "json", "--progress-spinner", "off", *options]
    asked = subprocess.run(command, capture_output=True, text=True)
    try:
        report = json.loads(asked.stdout)
    except json.JSONDecodeError:
        reason = asked.stderr.strip().splitlines()[-1:] or ["pip-audit said nothing"]
        print(f"NOT AUDITED: no advisory source answers ({reason[0][:300]}). Ask again online.")
        return 0
    code, told = verdict(report)
    print(told)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
