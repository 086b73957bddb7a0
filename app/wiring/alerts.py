"""Reads the targets of alerts from the operator's file."""

from __future__ import annotations

from importlib.util import find_spec

from app.errors import InputError
from app.settings import Settings
from app.types.alerts import AlertTarget, read_alerts


def alert_targets(settings: Settings) -> dict[str, AlertTarget]:
    """The targets by name, empty if no file is set. Raises InputError."""
    if settings.alerts_file is None:
        return {}
    if find_spec("apprise") is None:
        raise InputError("GIRCSE_ALERTS_FILE needs the package apprise: pip install 'gircse-search[alerts]'")
    try:
        text = settings.alerts_file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"GIRCSE_ALERTS_FILE cannot be read ({type(error).__name__}): {settings.alerts_file}"
        ) from None
    return read_alerts(text)
