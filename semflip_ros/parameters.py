"""ROS parameters from typed settings: each declared once, with meaning, range and default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from semflip_core.errors import ConfigError
from semflip_core.settings import Settings

SettingsT = TypeVar("SettingsT", bound=Settings)

#: Declared by rclpy itself in every node.
FOREIGN = ("use_sim_time", "start_type_description_service", "qos_overrides.")
LARGEST_INTEGER = 2**63 - 1


def flat_fields(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every leaf field with its dotted ROS name, nested settings opened up."""
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from flat_fields(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def _limits(field: FieldInfo) -> tuple[float | None, float | None]:
    low: float | None = None
    high: float | None = None
    for rule in field.metadata:
        low = next((v for k in ("ge", "gt") if (v := getattr(rule, k, None)) is not None), low)
        high = next((v for k in ("le", "lt") if (v := getattr(rule, k, None)) is not None), high)
    return low, high


def allowed(field: FieldInfo) -> str:
    """What a field takes, in words, for descriptors and messages."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(f"'{value}'" for value in get_args(field.annotation))
    kinds: dict[Any, str]
    kinds = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
    words = kinds.get(field.annotation, "")
    if get_origin(field.annotation) is tuple:
        inner = get_args(field.annotation)
        length = "a list of" if len(inner) == 2 and inner[1] is Ellipsis else f"{len(inner)}"
        words = f"{length} {'numbers' if inner[0] is float else 'texts'}"
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    rules = [
        f"{sign} {getattr(rule, key):g}"
        for rule in field.metadata
        for key, sign in signs.items()
        if getattr(rule, key, None) is not None
    ]
    return f"{words} {' and '.join(rules)}".strip()


def descriptor(field: FieldInfo, *, fixed: bool = False) -> ParameterDescriptor:
    """The ROS descriptor of a field: meaning, range, and what is allowed in words.

    Args:
        fixed: set at the start of the process and by no service afterwards.
    """
    result = ParameterDescriptor(
        description=field.description or "",
        additional_constraints=allowed(field) + ("; fixed at start" if fixed else ""),
        read_only=fixed,
    )
    low, high = _limits(field)
    if field.annotation is float:
        result.dynamic_typing = True  # an integer in a YAML file is a number too
        if low is not None or high is not None:
            largest = FloatingPointRange(
                from_value=-math.inf if low is None else float(low),
                to_value=math.inf if high is None else float(high),
            )
            result.floating_point_range = [largest]
    elif field.annotation is int and (low is not None or high is not None):
        whole = IntegerRange(
            from_value=-LARGEST_INTEGER if low is None else int(low),
            to_value=LARGEST_INTEGER if high is None else int(high),
        )
        result.integer_range = [whole]
    elif get_origin(field.annotation) is tuple:
        result.dynamic_typing = True  # [0, 0, 1] is a list of numbers, [] has no type at all
    return result


def _plain(value: Any, field: FieldInfo) -> Any:
    """A parameter's value as the settings want it: lists as tuples, an integer as a number."""
    if get_origin(field.annotation) is tuple:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            return value
        kind = get_args(field.annotation)[0]
        items = tuple(value)
        return tuple(float(v) for v in items) if kind is float and _numbers(items) else items
    if field.annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _numbers(items: tuple[Any, ...]) -> bool:
    return all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in items)


def check_values(kind: type[SettingsT], values: Mapping[str, Any], source: str) -> SettingsT:
    """Dotted parameter values into a settings object.

    Args:
        values: dotted name -> value; missing names keep their default.
        source: whose parameters they are, for messages.

    Raises:
        ConfigError: names each wrong parameter, its value and what is allowed.
    """
    fields = dict(flat_fields(kind))
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ConfigError(
            "\n".join(
                f"{source}: unknown parameter '{name}'; known: {', '.join(sorted(fields))}"
                for name in unknown
            )
        )
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *parents, leaf = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = _plain(value, fields[name])
    try:
        return kind.model_validate(nested, strict=True)
    except ValidationError as error:
        lines = []
        for item in error.errors():
            name = _leaf(fields, item["loc"])
            permitted = allowed(fields[name]) if name in fields else item["msg"]
            why = f" ({item['msg'].removeprefix('Value error, ')})"
            shown = values.get(name, item.get("input"))
            lines.append(f"{source}: parameter '{name}' = {shown!r}: needs {permitted}{why}")
        raise ConfigError("\n".join(dict.fromkeys(lines))) from error


def _leaf(fields: Mapping[str, FieldInfo], location: tuple[int | str, ...]) -> str:
    for end in range(len(location), 0, -1):
        name = ".".join(str(part) for part in location[:end])
        if name in fields:
            return name
    return ".".join(str(part) for part in location)


def defaults(kind: type[Settings]) -> dict[str, Any]:
    """Dotted name -> default of every parameter."""
    return {name: field.get_default() for name, field in flat_fields(kind)}


def declare(node: Node, kind: type[SettingsT]) -> SettingsT:
    """Declare every setting as a parameter of the node, from its overrides or defaults.

    The node must have been made with ``automatically_declare_parameters_from_overrides=True``, so
    that a name it does not know is seen and not silently dropped.

    Returns:
        The settings as they are now.

    Raises:
        ConfigError: an override has an unknown name or a wrong value; the message names all.
    """
    fields = dict(flat_fields(kind))
    given = {}
    for name in node.get_parameters_by_prefix(""):
        if name.startswith(FOREIGN):
            continue
        given[name] = node.get_parameter(name).value
    settings = check_values(kind, given, node.get_name())
    for name, default in defaults(kind).items():
        value = given.get(name, default)
        if name in given:
            node.undeclare_parameter(name)
        value = _plain(value, fields[name])
        node.declare_parameter(
            name,
            list(value) if isinstance(value, tuple) else value,
            descriptor(fields[name], fixed=name.startswith(kind.fixed_at_start)),
            ignore_override=True,
        )
    return settings


def read(node: Node, kind: type[SettingsT]) -> SettingsT:
    """The settings from the node's declared parameters; errors as for :func:`check_values`."""
    names = [name for name, _ in flat_fields(kind)]
    return check_values(kind, {n: node.get_parameter(n).value for n in names}, node.get_name())


def check_change(
    node: Node, kind: type[SettingsT], changes: Iterable[Parameter[Any]], locked: str
) -> SetParametersResult:
    """Answer a request to set parameters.

    Args:
        locked: why nothing may be changed now; empty when changes are welcome.
    """
    fields = dict(flat_fields(kind))
    ours = {p.name: p.value for p in changes if p.name in fields}
    if not ours:
        return SetParametersResult(successful=True)
    if locked:
        return SetParametersResult(successful=False, reason=f"'{next(iter(ours))}': {locked}")
    current = {name: node.get_parameter(name).value for name in fields if node.has_parameter(name)}
    try:
        check_values(kind, current | ours, node.get_name())
    except ConfigError as error:
        return SetParametersResult(successful=False, reason=str(error))
    return SetParametersResult(successful=True)
