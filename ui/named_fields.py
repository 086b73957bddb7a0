"""Fields of a page by name. Gradio passes values by position; only this module knows the order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr


@dataclass(frozen=True, slots=True)
class NamedFields:
    components: Mapping[str, gr.components.Component]

    @property
    def inputs(self) -> list[gr.components.Component]:
        """The inputs of an event whose handler is wrapped by `reading`, and whose script is made by `script`."""
        return list(self.components.values())

    def reading(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a handler that takes the values by name, then the event's other arguments."""

        def read(*values: object) -> Any:
            count = len(self.components)
            return handler(dict(zip(self.components, values[:count], strict=True)), *values[count:])

        return read

    def script(self, function: str, *arguments: object, passes_on: bool = False) -> str:
        """JavaScript that calls a function with the values by name. `passes_on`: the handler gets the values, too."""
        names = json.dumps([*self.components])
        rest = "".join(f", {json.dumps(each)}" for each in arguments)
        call = f"{function}(gircse.named({names}, values){rest})"
        return f"(...values) => {{ {call}; return values; }}" if passes_on else f"(...values) => {call}"

    def updates(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in the order of an event's outputs, which are these fields."""
        return tuple(values[name] for name in self.components)
