"""Unexpected errors: logged with traceback under an id that the user also sees."""

from __future__ import annotations

import logging
from uuid import uuid4


def log_incident(log: logging.Logger, job_id: str, error: Exception) -> str:
    """The reason to put on the job."""
    incident = uuid4().hex[:8]
    log.error("Job %s failed, incident %s", job_id, incident, exc_info=error)
    return f"Unexpected error (incident {incident} in the log): {type(error).__name__}: {error}"
