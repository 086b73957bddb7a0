"""Base classes of request bodies (unknown fields are errors) and responses (built from dataclasses)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import chain
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from app.types.options import Option, json_type

Model = TypeVar("Model", bound=BaseModel)


MAX_PARTS = 20_000  # values in a body, of which pydantic would describe each invalid one in a kilobyte


class RequestBody(BaseModel):
    """Also refuses too many values, and lone surrogates, which JSON can contain but no answer, database or hash."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_parts(cls, given: Any) -> Any:
        for count, part in enumerate(_parts(given)):
            if count > MAX_PARTS:
                raise ValueError(f"the body has more than {MAX_PARTS:,} values")
            if isinstance(part, str) and not part.isascii():
                _require_unicode(part)
        return given


class ResponseBody(BaseModel):
    model_config = ConfigDict(from_attributes=True)


def _parts(value: object) -> Iterator[object]:
    """The value, and the keys and values in it."""
    waiting = [iter((value,))]
    while waiting:
        for part in waiting[-1]:
            yield part
            if isinstance(part, dict):
                waiting.append(chain.from_iterable(part.items()))
                break
            if isinstance(part, list):
                waiting.append(iter(part))
                break
        else:
            waiting.pop()


def _require_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code, before = ord(text[error.start]), text[: error.start][-40:]
        raise ValueError(f"a text holds a lone surrogate, U+{code:04X}, after {before!r}; send UTF-8") from None


def with_options(options: Mapping[str, Option]) -> Callable[[type[Model]], type[Model]]:
    """Adds these options to a model as fields."""

    def give(model: type[Model]) -> type[Model]:
        added: dict[str, Any] = {name: (each.annotation, _default_of(each)) for name, each in options.items()}
        return create_model(model.__name__, __base__=model, __module__=model.__module__, **added)

    return give


_ANSWERS: dict[Any, type[BaseModel]] = {}


def showing(shown: type) -> Callable[[type[Model]], type[Model]]:
    """Adds the fields of a dataclass to a response model, except fields with repr=False. A nested dataclass gets the
    model that was made for it by `showing` before."""

    def give(model: type[Model]) -> type[Model]:
        hints = get_type_hints(shown, include_extras=True)
        names = [each.name for each in fields(shown) if each.repr and each.name not in model.model_fields]
        found: dict[str, Any] = {name: (json_type(hints[name], _ANSWERS), ...) for name in names}
        answer = create_model(model.__name__, __base__=model, __module__=model.__module__, **found)
        _ANSWERS[shown] = answer
        return answer

    return give


def _default_of(option: Option) -> Any:
    if option.is_required:
        return ...
    # With a factory, the schema shows no default for an empty list or dict.
    return option.default if option.default not in ([], {}) else Field(default_factory=type(option.default))
