"""Tools that run in the client: Python functions, described to the model by their signatures."""

from __future__ import annotations

import inspect
import types
import typing
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence, Union, overload

from . import schema

#: Characters of an error that is told to the model.
MAX_ERROR_CHARACTERS = 4_000


@dataclass(frozen=True)
class ClientTool:
    """A tool that runs here.

    With a description or parameters, the request declares the tool. Without both, the app has declared it, as with
    ``client = true`` or ``ask_user``.
    """

    name: str
    #: Makes the call, with the arguments as keywords. The answer is its result; an exception is told to the model.
    run: Callable[..., Any]
    #: Tells the model what the tool does.
    description: str | None = None
    #: A JSON Schema of the arguments, of type object.
    parameters: Mapping[str, Any] | None = None

    @property
    def is_declared(self) -> bool:
        return self.description is not None or self.parameters is not None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


ToolLike = Union[ClientTool, Callable[..., Any]]
Tools = Union[Sequence[ToolLike], Mapping[str, Callable[..., Any]]]


@overload
def tool(function: Callable[..., Any], /) -> ClientTool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], ClientTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> ClientTool | Callable[[Callable[..., Any]], ClientTool]:
    """Makes a tool of a function: its name, its docstring and its annotations are what the model is told.

    Annotations may be ``str``, ``int``, ``float``, ``bool``, ``list[…]``, ``dict``, ``Literal[…]`` and ``… | None``.
    ``parameters`` takes a JSON Schema of your own instead.
    """

    def make(function: Callable[..., Any]) -> ClientTool:
        said = description if description is not None else inspect.getdoc(function) or ""
        called = name or str(getattr(function, "__name__", ""))
        return ClientTool(called, function, said, parameters or signature_schema(function))

    return make(function) if function is not None else make


def named(tools: Tools | None) -> dict[str, ClientTool]:
    """Tools by their names. A plain function is declared; an entry of a mapping is a tool that the app has declared."""
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        made: Iterable[ClientTool] = (
            run if isinstance(run, ClientTool) else ClientTool(name, run) for name, run in tools.items()
        )
    else:
        made = (one if isinstance(one, ClientTool) else tool(one) for one in tools)
    by_name: dict[str, ClientTool] = {}
    for one in made:
        if not one.name or one.name in by_name:
            raise ValueError(f"a tool needs a name of its own: {one.name!r}")
        by_name[one.name] = one
    return by_name


def declared(tools: Mapping[str, ClientTool]) -> list[schema.ClientTool]:
    """The tools that a request declares."""
    return [
        {
            "name": one.name,
            "description": one.description or "",
            "parameters": dict(one.parameters or {"type": "object"}),
        }
        for one in tools.values()
        if one.is_declared
    ]


def signature_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """A JSON Schema of the arguments of a function."""
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{parameter.name} of {function!r} cannot be given by its name")
        properties[parameter.name] = _type_schema(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": required} if required else made


_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _type_schema(hint: Any) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(given)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type_schema(one) for one in given]}
    if hint is list or origin is list:
        return {"type": "array", "items": _type_schema(given[0])} if given else {"type": "array"}
    if hint is dict or origin is dict:
        return {"type": "object"}
    raise TypeError(f"{hint!r} has no JSON Schema; give `parameters` to `tool`")


def error_words(error: BaseException) -> str:
    """What the model is told about an exception."""
    return (str(error) or type(error).__name__)[:MAX_ERROR_CHARACTERS]
