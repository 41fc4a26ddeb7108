"""Field types that several shapes share: quantities, seconds, names. Each says in the schema what it takes."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from sterna.model.errors import InvalidRequest
from sterna.model.quantities import cpu_milli, gpu_milli, memory_bytes

COUNT_MAX = 100_000  # workers of one job; far above any cluster, far below what hurts


def _number(*, at_least: float | None = None, above: float | None = None) -> Callable[[Any], float]:
    """Keeps whole numbers whole, so that what is read and written again is the same text."""
    bound = f" of {at_least:g} or more" if at_least is not None else f" above {above:g}" if above is not None else ""

    def check(value: Any) -> float:
        if (
            (type(value) is not float and type(value) is not int)
            or (at_least is not None and value < at_least)
            or (above is not None and value <= above)
        ):
            raise PydanticCustomError("number", "a number{bound}", {"bound": bound})
        return value

    return check


def _quantity(parse: Callable[..., int]) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        try:
            return parse(value)
        except InvalidRequest as error:
            raise PydanticCustomError("quantity", "{expected}", {"expected": error.expected}) from None

    return check


QUANTITY_PATTERN = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
_QUANTITY_SCHEMA = WithJsonSchema(
    {
        "type": ["string", "number"],
        "minimum": 0,
        "pattern": QUANTITY_PATTERN,
        "maxLength": 64,
        "description": 'a Kubernetes quantity: 2, "0.5", "500m", "16Gi"; rounded up where it is not exact',
    }
)

CpuMilli = Annotated[int, PlainValidator(_quantity(cpu_milli)), _QUANTITY_SCHEMA]
MemoryBytes = Annotated[int, PlainValidator(_quantity(memory_bytes)), _QUANTITY_SCHEMA]
GpuMilli = Annotated[int, PlainValidator(_quantity(gpu_milli)), _QUANTITY_SCHEMA]

Moment = Annotated[float, PlainValidator(_number()), WithJsonSchema({"type": "number"})]
Number = Moment
Amount = Annotated[float, PlainValidator(_number(at_least=0)), WithJsonSchema({"type": "number", "minimum": 0})]
Positive = Annotated[float, PlainValidator(_number(above=0)), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]

# control characters could forge lines of a journal or paint on a terminal
Name = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
Count = Annotated[int, Field(ge=1, le=COUNT_MAX)]
WholeNumber = Annotated[int, Field(ge=0)]
