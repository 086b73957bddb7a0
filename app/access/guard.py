"""The guard in front of the services: applies the rules of `app/access/policy.py` to each call and denies methods
without a rule. It contains no service names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature, getattr_static, signature
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from app.access.authorizer import Authorizer, without_hidden
from app.access.quotas import UserQuotas
from app.errors import ForbiddenError, NotFoundError, UnknownCollectionError
from app.types.access import Principal, Role, Scope

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

Service = TypeVar("Service")


@dataclass(frozen=True, slots=True)
class Access:
    """The objects that the policy's functions use."""

    authorizer: Authorizer
    catalog: SqlCatalog
    quotas: UserQuotas


@dataclass(frozen=True, slots=True)
class Subject:
    """How to find the collections of a call: `collections` gets the value of `argument` (None without an argument)
    and raises if the caller may not know that value.
    """

    argument: str | None
    collections: Callable[[Access, Any], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit log entry: the event, the argument used as its subject, and the arguments used as its details. The
    detail `collection` is the first collection of the call, even if no argument names it.

    The entry is written before the call, so that no action goes unrecorded, and taken back if the call is refused; with
    `after`, it is written after the call if `applied` accepts the result.
    """

    event: str
    subject: str
    detail: tuple[str, ...] = ()
    after: bool = False
    applied: Callable[[Any], bool] = lambda result: True
    subject_of: Callable[[Any], str] = str  # of the argument


@dataclass(frozen=True, slots=True)
class Rule:
    """What a caller needs for one method. With role None, anyone may call it, even without a login."""

    role: Role | None
    subjects: tuple[Subject, ...] = ()
    scope: Scope | None = None  # a scope that keys need
    audit: Audit | None = None
    notes: tuple[str, ...] = ()  # events that the called function records itself
    give: Mapping[str, Callable[[Access, Any], Any]] = field(default_factory=dict)  # arguments that the guard replaces
    instead: Callable[..., Any] | None = None  # called with Access, the service and the arguments instead of the method
    is_value: bool = False  # a property or attribute


Rules = Mapping[str, Rule]


def behind_guard(service: Service, rules: Rules, access: Access) -> Service:
    """The service as interfaces get it. Raises TypeError for a rule that does not fit the service."""
    return cast(Service, Guard(service, rules, access))


class Guard:
    """Has only those members of a service that have a rule; each checks its caller."""

    def __init__(self, service: object, rules: Rules, access: Access) -> None:
        self._denial = f"{type(service).__name__}.%s has no rule in app/access/policy.py, so interfaces cannot use it."
        self._values = {name: _value(service, name, rule, access) for name, rule in rules.items() if rule.is_value}
        for name, rule in rules.items():
            if not rule.is_value:
                setattr(self, name, _method(service, name, rule, access))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._values:
            return self._values[name]()
        raise AttributeError(self._denial % name)


class _Argument:
    """The position of one argument in calls of one function."""

    def __init__(self, parameters: Signature, name: str) -> None:
        parameter = parameters.parameters.get(name)
        if parameter is None or parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise TypeError(f"no argument {name!r} in {parameters}")
        is_positional = parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        self._name = name
        self._place = list(parameters.parameters).index(name) if is_positional else None
        self._default = parameter.default

    def of(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        if self._place is not None and self._place < len(args):
            return args[self._place]
        if self._name in keywords:
            return keywords[self._name]
        if self._default is Parameter.empty:
            raise TypeError(f"missing a required argument: {self._name!r}")
        return self._default

    def replace(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], value: Any
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        if self._place is not None and self._place < len(args):
            return (*args[: self._place], value, *args[self._place + 1 :]), keywords
        return args, {**keywords, self._name: value}


def _value(service: object, name: str, rule: Rule, access: Access) -> Callable[[], Any]:
    if not hasattr(service, name):
        raise TypeError(f"{type(service).__name__} has no {name!r}, but there is a rule for it.")

    def value() -> Any:
        return getattr(service, name)

    return _checked(value, rule, access)


def _method(service: object, name: str, rule: Rule, access: Access) -> Callable[..., Any]:
    if not callable(getattr(service, name, None)):
        raise TypeError(f"{type(service).__name__} has no method {name!r}, but there is a rule for it.")
    declared = getattr_static(type(service), name, None)
    method = getattr(service, name) if declared is None else declared.__get__(service, type(service))
    expected, function = signature(method), rule.instead
    if function is not None:
        _, _, *parameters = signature(function).parameters.values()
        if [(own.name, own.kind) for own in parameters] != [(p.name, p.kind) for p in expected.parameters.values()]:
            raise TypeError(
                f"{function.__name__} does not take the arguments of {type(service).__name__}.{name}{expected}"
            )

    def call(*args: Any, **keywords: Any) -> Any:
        if function is not None:
            return function(access, service, *args, **keywords)
        return getattr(service, name)(*args, **keywords)

    call.__name__ = name
    call.__signature__ = expected  # type: ignore[attr-defined]
    return _checked(call, rule, access)


def _checked(function: Callable[..., Any], rule: Rule, access: Access) -> Callable[..., Any]:
    """Wraps the function with the rule's checks. Signatures are read once, here, instead of on each call."""
    role = rule.role
    if role is None:
        return _revealing_nothing(function)
    authorizer, parameters = access.authorizer, signature(function)
    collections_of = _collections(rule.subjects, parameters, access)
    given = [(_Argument(parameters, name), make) for name, make in rule.give.items()]
    entry_of = _entry(rule.audit, parameters)

    def checked(*args: Any, **keywords: Any) -> Any:
        names = collections_of(args, keywords)
        with authorizer.require_access(role, *names) as principal:
            if rule.scope is not None:
                _require_scope(principal, rule.scope)
            handed_on: tuple[tuple[Any, ...], Mapping[str, Any]] = (args, keywords)
            for argument, make in given:
                handed_on = argument.replace(*handed_on, make(access, argument.of(*handed_on)))
            if rule.audit is None:
                result = function(*handed_on[0], **handed_on[1])
            elif rule.audit.after:
                result = function(*handed_on[0], **handed_on[1])
                if rule.audit.applied(result):
                    authorizer.note_done(*entry_of(names, args, keywords))
            else:
                with authorizer.noting(*entry_of(names, args, keywords)):
                    result = function(*handed_on[0], **handed_on[1])
        if isinstance(result, GeneratorType):
            return _items(result, principal)
        return result

    checked.__name__ = function.__name__
    checked.__signature__ = parameters  # type: ignore[attr-defined]
    return checked


def _revealing_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
    """For anyone, who may see no names of collections."""

    def called(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except UnknownCollectionError as error:
            raise NotFoundError(error.lasting_text) from None

    called.__name__ = function.__name__
    called.__signature__ = signature(function)  # type: ignore[attr-defined]
    return called


def _collections(
    subjects: tuple[Subject, ...], parameters: Signature, access: Access
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[str, ...]]:
    finders = [
        (subject.collections, None if subject.argument is None else _Argument(parameters, subject.argument))
        for subject in subjects
    ]

    if len(finders) == 1:  # the usual case; the loop below would double the cost of the check
        ((find, single),) = finders
        if single is not None:
            return lambda args, keywords: find(access, single.of(args, keywords))

    def collections_of(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(
            name
            for collections, argument in finders
            for name in collections(access, None if argument is None else argument.of(args, keywords))
        )

    return collections_of


def _entry(
    audit: Audit | None, parameters: Signature
) -> Callable[[tuple[str, ...], tuple[Any, ...], Mapping[str, Any]], tuple[str, str, Mapping[str, str]]]:
    """Returns a function that gives event, subject and details of a call."""
    if audit is None:
        return lambda names, args, keywords: ("", "", {})
    subject = _Argument(parameters, audit.subject)
    arguments = {name: _Argument(parameters, name) for name in audit.detail if name != "collection"}

    def entry(
        names: tuple[str, ...], args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[str, str, Mapping[str, str]]:
        detail = {
            name: names[0] if name == "collection" else arguments[name].of(args, keywords) for name in audit.detail
        }
        return audit.event, audit.subject_of(subject.of(args, keywords)), detail

    return entry


def _require_scope(principal: Principal, scope: Scope) -> None:
    if not principal.has_scope(scope):
        raise ForbiddenError(
            "This key can only manage itself. Log in, or use a key made with `gircse keys add --scope access`."
        )


def _items(items: Generator[Any, None, None], principal: Principal) -> Generator[Any, None, None]:
    """The caller is already checked; errors while iterating must not reveal hidden collections either."""
    try:
        yield from items
    except UnknownCollectionError as error:
        raise without_hidden(error, principal) from None
