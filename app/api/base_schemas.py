"""What all bodies and answers over HTTP have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Posted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)
