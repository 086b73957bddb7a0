"""Settings of answers by a language model."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class AnswerSettings(BaseSettings):
    """A part of `Settings`."""

    answer_url: str | None = Field(
        default=None,
        description="Server with OpenAI's chat API that generates answers on request, such as "
        "http://localhost:11434/v1. It gets questions and passages. Default: none; answers then quote sentences of the "
        "documents.",
    )
    answer_model: str | None = Field(default=None, description="Name of the model on that server.")
    answer_api_key: SecretStr | None = Field(default=None, description="API key of that server.")
    answer_wait_s: float = Field(
        default=60, gt=0, le=3_600, description="Seconds to wait for the next words of that server."
    )
    answer_timeout_s: float = Field(
        default=120, gt=0, le=3_600, description="Seconds after which a generated answer is cut off."
    )
    answer_tokens: int = Field(default=600, ge=16, le=8_192, description="Most tokens of a generated answer.")
    answers_at_once: int = Field(
        default=2, ge=1, le=256, description="Answers generated at a time; further requests get status 429."
    )


def answer_errors(settings: AnswerSettings) -> list[str]:
    """Contradictions between these settings."""
    errors = []
    if (settings.answer_url is None) != (settings.answer_model is None):
        errors.append("GIRCSE_ANSWER_URL and GIRCSE_ANSWER_MODEL go together; set both or neither")
    if settings.answer_api_key is not None and settings.answer_url is None:
        errors.append("GIRCSE_ANSWER_API_KEY is set without GIRCSE_ANSWER_URL; set both or neither")
    return errors
