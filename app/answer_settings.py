"""What is set from outside for answers that a language model words."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class AnswerSettings(BaseSettings):
    """A part of `Settings`."""

    answer_url: str | None = Field(
        default=None,
        description="A server with OpenAI's chat API that words answers when people ask for that, as "
        "http://localhost:11434/v1: it is sent questions and passages. Default: none; answers are sentences of the "
        "documents.",
    )
    answer_model: str | None = Field(default=None, description="The name of the model there.")
    answer_api_key: SecretStr | None = Field(default=None, description="What that server wants to be shown.")
    answer_wait_s: float = Field(
        default=60, gt=0, le=3_600, description="So long that server may take for its next words."
    )
    answer_timeout_s: float = Field(default=120, gt=0, le=3_600, description="An answer is cut off after so long.")
    answer_tokens: int = Field(default=600, ge=16, le=8_192, description="The most that the model may write.")
    answers_at_once: int = Field(
        default=2, ge=1, le=256, description="Answers that it words at a time; who asks for more is answered 429."
    )


def answer_errors(settings: AnswerSettings) -> list[str]:
    """What cannot be used of these settings taken together."""
    errors = []
    if (settings.answer_url is None) != (settings.answer_model is None):
        errors.append("GIRCSE_ANSWER_URL and GIRCSE_ANSWER_MODEL go together; set both or neither")
    if settings.answer_api_key is not None and settings.answer_url is None:
        errors.append("GIRCSE_ANSWER_API_KEY is set without GIRCSE_ANSWER_URL; set both or neither")
    return errors
