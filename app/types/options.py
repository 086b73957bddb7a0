"""Options of a request. Each is written once, as a field of a frozen dataclass that carries pydantic's `Field` (type,
default, bounds, help text); every interface reads it from there. Knows no interface."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How interfaces word or spell an option where they differ from its `Field` and its name."""

    command: str | None = None  # its help on the command line
    flags: tuple[str, ...] = ()  # its names there
    metavar: str | None = None  # what its value is called there
    agents: str | None = None  # its description for agents
    parameter: str | None = None  # its name in the address of the search page


@dataclass(frozen=True)
class Option:
    name: str
    type: Any  # as JSON has it: lists and dicts, with the bounds of what is in them
    field: FieldInfo
    shown: Shown
    declared: Field[Any]

    @property
    def description(self) -> str:
        return self.field.description or ""

    @property
    def annotation(self) -> Any:
        """For a pydantic model: the type with bounds and help text."""
        return Annotated[self.type, self.field]

    @property
    def bounded_type(self) -> Any:
        """The type with its bounds, for an interface that has its own help text."""
        return Annotated[(self.type, *self.field.metadata)] if self.field.metadata else self.type

    @property
    def is_required(self) -> bool:
        return self.declared.default is MISSING and self.declared.default_factory is MISSING

    @cached_property
    def default(self) -> Any:
        """As JSON has it. MISSING where the option is required."""
        if self.declared.default_factory is not MISSING:
            return _as_json(self.declared.default_factory())
        return self.declared.default

    def read(self, value: object) -> Any:
        """The value of the dataclass for one that may be written as text. Raises pydantic's ValidationError."""
        return self.frozen(TypeAdapter(self.annotation).validate_python(value))

    def frozen(self, value: Any) -> Any:
        """The value of the dataclass for one that JSON, or the command line, has."""
        if isinstance(value, list):
            return tuple(value)
        return type(self.default)(value) if isinstance(self.default, Enum) else value


def options_of(model: type) -> dict[str, Option]:
    """The fields of a dataclass that carry a `Field`, by name; all others are no options."""
    hints = get_type_hints(model, include_extras=True)
    found = {}
    for each in fields(model):
        kind, *metadata = get_args(hints[each.name]) if get_origin(hints[each.name]) is Annotated else (None,)
        field = next((part for part in metadata if isinstance(part, FieldInfo)), None)
        if field is not None:
            shown = next((part for part in metadata if isinstance(part, Shown)), Shown())
            found[each.name] = Option(each.name, _json_type(kind), field, shown, each)
    return found


def taking(parameters: Iterable[inspect.Parameter]) -> Callable[[Function], Function]:
    """Gives a function these parameters in place of its `**options`, for frameworks that read signatures."""

    def give(function: Function) -> Function:
        own = inspect.signature(function, eval_str=True)
        kept = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        positional = [each for each in kept if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        rest = [each for each in kept if each.kind is inspect.Parameter.KEYWORD_ONLY]
        signature = own.replace(parameters=[*positional, *parameters, *rest])
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
        function.__annotations__["return"] = signature.return_annotation
        return function

    return give


def parameter(name: str, annotation: Any, default: Any = MISSING) -> inspect.Parameter:
    shown = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=shown)


def _json_type(kind: Any) -> Any:
    """Lists and dicts for tuples and mappings: a caller is told of the wrong types in the words of JSON."""
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        return list[parts[0]]  # type: ignore[valid-type]
    if get_origin(kind) is Mapping:
        return dict[parts[0], parts[1]]  # type: ignore[valid-type]
    return kind


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
