"""Which images the scenario runs: those of the variables, those of a registry, or stand-ins that it builds."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

from compose_stack import ROOT, Images, StackError, docker

HERE = Path(__file__).parent


def choose_images() -> Images:
    """GIRCSE_IMAGE must be there; Qdrant's and PostgreSQL's are pulled, and replaced where that fails."""
    gircse = os.environ.get("GIRCSE_IMAGE") or _default_of("GIRCSE_IMAGE")
    if not is_here(gircse):
        raise StackError(
            f"There is no image {gircse}. Build it with `make stack` or `make image PODMAN=docker IMAGE={gircse}`."
        )
    qdrant, stands_in_for_qdrant = _other("QDRANT_IMAGE", "qdrant", {"GIRCSE_IMAGE": gircse})
    postgres, stands_in_for_postgres = _other("POSTGRES_IMAGE", "postgres", _base())
    stand_ins = [
        name for name, is_one in (("qdrant", stands_in_for_qdrant), ("postgres", stands_in_for_postgres)) if is_one
    ]
    return Images(gircse, qdrant, postgres, tuple(stand_ins))


def is_here(image: str) -> bool:
    try:
        docker("image", "inspect", image)
    except StackError:
        return False
    return True


def _other(variable: str, name: str, arguments: dict[str, str]) -> tuple[str, bool]:
    image = os.environ.get(variable) or _default_of(variable)
    if is_here(image):
        return image, False
    try:
        docker("pull", image)
    except StackError as error:
        if os.environ.get(variable):
            raise
        print(f"{error}\nAn image of this repository stands in for {name}.", file=sys.stderr)
    else:
        return image, False
    made = f"gircse-stack-test-{name}"
    given = [option for key, value in arguments.items() for option in ("--build-arg", f"{key}={value}")]
    docker("build", *given, "--tag", made, *shlex.split(os.environ.get("IMAGE_ARGS") or ""), str(HERE / name))
    return made, True


def _base() -> dict[str, str]:
    """Of the stand-in for PostgreSQL: the Debian of `make base`, or its Dockerfile's."""
    base = os.environ.get("BASE") or "localhost/gircse-base:bookworm"
    return {"BASE": base} if is_here(base) else {}


def _default_of(variable: str) -> str:
    compose = (ROOT / "docker-compose.yml").read_text("utf-8")
    found = re.search(r"\$\{" + variable + r":-([^}]+)\}", compose)
    assert found is not None, variable
    return found[1]
