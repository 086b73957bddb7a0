"""Unexpected errors: logged with a traceback under an incident id that the user sees, too."""

from __future__ import annotations

import logging
from uuid import uuid4


def log_incident(log: logging.Logger, job_id: str, error: Exception) -> str:
    """Logs the error and returns the message for the job, which names the incident."""
    incident = uuid4().hex[:8]
    log.error("Job %s failed, incident %s", job_id, incident, exc_info=error)
    return f"Unexpected error (incident {incident} in the log): {type(error).__name__}: {error}"
