"""Base classes of request bodies (unknown fields are errors) and responses (built from dataclasses)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from app.types.options import Option, json_type

Model = TypeVar("Model", bound=BaseModel)


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ResponseBody(BaseModel):
    model_config = ConfigDict(from_attributes=True)


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
