"""Options of a request. Each is written once, as a dataclass field with pydantic's `Field`: type, default, bounds and
help text. Every interface reads them here; this module knows none of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from functools import cached_property, reduce
from operator import or_
from types import MappingProxyType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from app.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Names and descriptions of an option in single interfaces, where they differ from its name and its `Field`."""

    command: str | None = None  # help on the command line
    flags: tuple[str, ...] = ()  # flags on the command line
    metavar: str | None = None  # placeholder for the value in the help of the command line
    agents: str | None = None  # description for agents
    parameter: str | None = None  # name in the address of the search page


@dataclass(frozen=True)
class Option:
    name: str
    type: Any  # with lists and dicts as in JSON, and the bounds of their elements
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
        """The default in JSON types (lists instead of tuples); MISSING if the option is required."""
        if self.declared.default_factory is not MISSING:
            return _as_json(self.declared.default_factory())
        return self.declared.default

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        """Cached, because building it takes longer than validating a value."""
        return TypeAdapter(self.annotation)

    def read(self, value: object) -> Any:
        """Validates a value, which may be text, and converts it. Raises InputError."""
        try:
            return self.frozen(self._adapter.validate_python(value))
        except ValidationError as error:
            raise InputError(f"{self.name}: {error.errors()[0]['msg']}.") from None

    def frozen(self, value: Any) -> Any:
        """Converts a valid value of JSON or of the command line to the type of the dataclass's field."""
        if isinstance(value, list):
            return tuple(value)
        return type(self.default)(value) if isinstance(self.default, Enum) else value


def options_of(model: type) -> dict[str, Option]:
    """The fields of a dataclass that carry a `Field`, by name. Other fields are not options."""
    hints = get_type_hints(model, include_extras=True)
    found = {}
    for each in fields(model):
        kind, *metadata = get_args(hints[each.name]) if get_origin(hints[each.name]) is Annotated else (None,)
        field = next((part for part in metadata if isinstance(part, FieldInfo)), None)
        if field is not None:
            shown = next((part for part in metadata if isinstance(part, Shown)), Shown())
            found[each.name] = Option(each.name, json_type(kind), field, shown, each)
    return found


def taking(parameters: Iterable[inspect.Parameter]) -> Callable[[Function], Function]:
    """Replaces `**options` in a function's signature by these parameters, for frameworks that read signatures."""

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


def json_type(kind: Any, replaced: Mapping[Any, Any] = MappingProxyType({})) -> Any:
    """Replaces tuples and mappings in a type by lists and dicts, so that error messages name JSON's types. `replaced`
    maps further types to their replacements, at any depth."""
    parts = get_args(kind)
    origin = get_origin(kind)
    if origin is Annotated:
        return Annotated[(json_type(parts[0], replaced), *parts[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, (json_type(each, replaced) for each in parts))
    if origin is tuple:
        return list[json_type(parts[0], replaced)]  # type: ignore[misc]
    if origin is Mapping:
        return dict[parts[0], json_type(parts[1], replaced)]  # type: ignore[misc, valid-type]
    return replaced.get(kind, kind)


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
