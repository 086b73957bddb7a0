"""Base classes of request bodies (unknown fields are errors) and responses (built from dataclasses)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from app.types.options import Option

Model = TypeVar("Model", bound=BaseModel)


class Posted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


def with_options(options: Mapping[str, Option]) -> Callable[[type[Model]], type[Model]]:
    """Gives a model these options as fields, before its own."""

    def give(model: type[Model]) -> type[Model]:
        fields: dict[str, Any] = {name: (each.annotation, _default_of(each)) for name, each in options.items()}
        return create_model(model.__name__, __base__=model, __module__=model.__module__, **fields)

    return give


def _default_of(option: Option) -> Any:
    if option.is_required:
        return ...
    # A schema shows no default of what is empty.
    return option.default if option.default not in ([], {}) else Field(default_factory=type(option.default))
