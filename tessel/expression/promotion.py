"""How the types of several operands join: arithmetic, common types, and what can be compared."""

from __future__ import annotations

import pyarrow as pa

from tessel.expression.types import (
    NUMBERS,
    Family,
    Operand,
    Signature,
    finest_unit,
    integer_type,
    is_signed,
    narrowest_integer,
    refuse,
    type_name,
)

_SMALL_INTEGERS = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_FLOAT32_MAX = 3.4028235677973366e38
_NUMBER_HINT = (
    "cast one side, for instance .cast('float64') or .cast('int64'), or compare or combine "
    "values of one kind"
)


def adapted(operand: Operand, others: tuple[Operand, ...]) -> Operand:
    """Return a plain number literal with the type it takes beside other operands.

    A non-negative integer is unsigned beside unsigned ones only; a float takes float32 beside
    float32 where that is finite.
    """
    literal = operand.literal
    if literal is None or literal.kind not in ("int", "float"):
        return operand
    beside = [other.type for other in others if not _adapts(other)]
    if literal.kind == "int":
        integers = [type_ for type_ in beside if pa.types.is_integer(type_)]
        unsigned = bool(integers) and all(pa.types.is_unsigned_integer(t) for t in integers)
        return Operand(
            narrowest_integer(literal.value, unsigned=unsigned), operand.written, literal
        )
    floats = [type_ for type_ in beside if pa.types.is_floating(type_)]
    single = bool(floats) and all(pa.types.is_float32(type_) for type_ in floats)
    fits = not abs(literal.value) > _FLOAT32_MAX or abs(literal.value) == float("inf")
    if single and fits and all(type_ in floats or type_ in _SMALL_INTEGERS for type_ in beside):
        return Operand(pa.float32(), operand.written, literal)
    return operand


def _adapts(operand: Operand) -> bool:
    return operand.literal is not None and operand.literal.kind in ("int", "float")


def _adapt_all(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    return tuple(
        adapted(operand, operands[:place] + operands[place + 1 :])
        for place, operand in enumerate(operands)
    )


def next_integer(*types: pa.DataType, signed: bool | None = None) -> pa.DataType:
    """Return the next wider integer type than the widest given, at most 64 bits.

    Signed if any of them is, or as ``signed`` says.
    """
    width = max(type_.bit_width for type_ in types)
    any_signed = any(is_signed(type_) for type_ in types) if signed is None else signed
    return integer_type(width * 2, signed=any_signed)


def arithmetic_types(verb: str, left: Operand, right: Operand) -> Signature:
    """Return the signature of ``+ - *`` on two numbers; refuses anything else."""
    _require_numbers(verb, left, right)
    left, right = _adapt_all((left, right))
    families = {left.family, right.family}
    if Family.NULL in families:
        other = right.type if left.family is Family.NULL else left.type
        if pa.types.is_integer(other):
            signed = True if verb == "subtract" else None
            other = next_integer(other, signed=signed)
        return Signature((other, other), other)
    if families == {Family.INTEGER}:
        signed = True if verb == "subtract" else None
        return _of_integers(left, right, next_integer(left.type, right.type, signed=signed))
    if Family.DECIMAL in families and Family.FLOAT not in families:
        return _decimal_types(verb, left, right)
    result = _common_float(left.type, right.type)
    return Signature((result, result), result)


def _require_numbers(verb: str, *operands: Operand) -> None:
    for operand in operands:
        if operand.family not in (*NUMBERS, Family.NULL):
            hint = _NUMBER_HINT
            if operand.family is Family.TEXT and verb == "add":
                hint = "join texts with .concat(...); cast numbers with .cast('text')"
            if operand.family is Family.BOOL:
                hint = "turn truth values into numbers with .cast('int8')"
            refuse(verb, operands, hint)


def _of_integers(left: Operand, right: Operand, result: pa.DataType) -> Signature:
    """Return the signature for integers, which stay as they are where uint64 becomes signed."""
    exact = pa.uint64() in (left.type, right.type) and is_signed(result)
    return Signature((left.type, right.type) if exact else (result, result), result)


def _common_float(*types: pa.DataType) -> pa.DataType:
    floats = [type_ for type_ in types if pa.types.is_floating(type_)]
    rest = [type_ for type_ in types if not pa.types.is_floating(type_)]
    single = floats and all(pa.types.is_float32(type_) for type_ in floats)
    if single and all(type_ in _SMALL_INTEGERS for type_ in rest):
        return pa.float32()
    return pa.float64()


def _as_decimal(operand: Operand) -> tuple[int, int]:
    if operand.family is Family.DECIMAL:
        return operand.type.precision, operand.type.scale
    literal = operand.literal
    if literal is not None and literal.kind == "int":
        return max(1, len(literal.content.lstrip("-"))), 0
    return _INTEGER_DIGITS[operand.type.bit_width], 0


def _decimal_types(verb: str, left: Operand, right: Operand) -> Signature:
    (left_digits, left_scale), (right_digits, right_scale) = _as_decimal(left), _as_decimal(right)
    if verb == "multiply":
        scale, digits = left_scale + right_scale, left_digits + right_digits + 1
    else:
        scale = max(left_scale, right_scale)
        digits = max(left_digits - left_scale, right_digits - right_scale) + scale + 1
    if scale > 38:
        refuse(
            verb, (left, right), "the product has more than 38 digits after the point; cast first"
        )
    inputs = (pa.decimal256(left_digits, left_scale), pa.decimal256(right_digits, right_scale))
    return Signature(inputs, pa.decimal128(min(38, digits), scale))


def temporal_sum(verb: str, left: Operand, right: Operand) -> Signature | None:
    """Return the signature of sums and differences of instants and durations; None for numbers."""
    families = (left.family, right.family)
    if not any(f in (Family.TIMESTAMP, Family.DURATION, Family.DATE) for f in families):
        return None
    match verb, *families:
        case _, Family.DURATION, Family.DURATION:
            shared = pa.duration(finest_unit(left.type, right.type))
            return Signature((shared, shared), shared)
        case (("add" | "subtract"), Family.TIMESTAMP, Family.DURATION):
            unit = finest_unit(left.type, right.type)
            instant = pa.timestamp(unit, left.type.tz)
            return Signature((instant, pa.duration(unit)), instant)
        case "add", Family.DURATION, Family.TIMESTAMP:
            unit = finest_unit(left.type, right.type)
            instant = pa.timestamp(unit, right.type.tz)
            return Signature((pa.duration(unit), instant), instant)
        case "subtract", Family.TIMESTAMP, Family.TIMESTAMP:
            refuse_mixed_zones(verb, left, right)
            unit = finest_unit(left.type, right.type)
            inputs = (pa.timestamp(unit, left.type.tz), pa.timestamp(unit, right.type.tz))
            return Signature(inputs, pa.duration(unit))
        case "subtract", Family.DATE, Family.DATE:
            return Signature((pa.date32(), pa.date32()), pa.duration("s"))
    refuse(
        verb,
        (left, right),
        "instants take durations, such as a timedelta or duration '90min'; "
        "cast dates with .cast('timestamp[us]') first",
    )
    return None


def refuse_mixed_zones(verb: str, left: Operand, right: Operand) -> None:
    """Refuse a timestamp without a zone beside one with a zone."""
    if (left.type.tz is None) != (right.type.tz is None):
        zone = left.type.tz or right.type.tz
        naive = left if left.type.tz is None else right
        way = f"give the other its zone with .cast('timestamp[{left.type.unit}, {zone}]')"
        if naive.literal is not None:
            way = (
                f"write the instant as text, {naive.literal.content!r}, which is one of {zone} "
                "here, or with its zone: datetime(…, tzinfo=datetime.UTC)"
            )
        refuse(verb, (left, right), f"one has a time zone and one has none: {way}")


def common_number(verb: str, left: Operand, right: Operand) -> Signature:
    """Return the signature for two numbers whose result has their common type."""
    _require_numbers(verb, left, right)
    left, right = _adapt_all((left, right))
    if Family.DECIMAL in (left.family, right.family):
        refuse(verb, (left, right), "cast the decimal with .cast('float64') or .cast('int64')")
    if {left.family, right.family} == {Family.INTEGER}:
        return _of_integers(left, right, common_integer(left.type, right.type))
    known = [o.type for o in (left, right) if o.family is not Family.NULL]
    result = _common_float(*known) if len(known) > 1 else [*known, pa.null()][0]
    return Signature((result, result), result)


def common_integer(*types: pa.DataType) -> pa.DataType:
    """Return the integer type that holds all; int64 where signed ones meet uint64."""
    signed = [type_.bit_width for type_ in types if is_signed(type_)]
    unsigned = [type_.bit_width for type_ in types if not is_signed(type_)]
    if not signed:
        return integer_type(max(unsigned), signed=False)
    return integer_type(max(signed + [width * 2 for width in unsigned]), signed=True)


def common_type(verb: str, operands: tuple[Operand, ...]) -> pa.DataType:
    """Return the one type that holds all operands, for branches and filled values.

    Integers widen to hold all, integers beside floats become floats, units become the finest.
    Null joins anything. Refuses kinds that do not join.
    """
    present = tuple(operand for operand in operands if operand.family is not Family.NULL)
    if not present:
        return pa.null()
    # many branches are usually of few types: joining each type once keeps this linear
    distinct = {(o.type, "" if o.literal is None else o.literal.content): o for o in present}
    unique = tuple(distinct.values())
    columns = tuple(o for o in unique if not _adapts(o))
    joined = [adapted(operand, columns) if _adapts(operand) else operand for operand in unique]
    result = joined[0]
    for operand in joined[1:]:
        result = Operand(_joined(verb, result, operand), result.written)
    return result.type


def _joined(verb: str, left: Operand, right: Operand) -> pa.DataType:
    one, two = left.type, right.type
    if one == two:
        return one
    families = {left.family, right.family}
    if families == {Family.INTEGER}:
        if pa.uint64() in (one, two) and is_signed(one) != is_signed(two):
            refuse(verb, (left, right), "no integer type holds both: cast one with .cast('int64')")
        return common_integer(one, two)
    if families <= {Family.INTEGER, Family.FLOAT}:
        return _common_float(one, two)
    if families <= {Family.INTEGER, Family.DECIMAL}:
        (digits, scale), (more, deep) = _as_decimal(left), _as_decimal(right)
        points = max(scale, deep)
        return pa.decimal128(min(38, max(digits - scale, more - deep) + points), points)
    if len(families) == 1:
        same = same_family(verb, left, right)
        if same is not None:
            return same
    return refuse(
        verb, (left, right), f"both must be of one kind: cast one with .cast({type_name(one)!r})"
    )


def same_family(verb: str, left: Operand, right: Operand) -> pa.DataType | None:
    """Return the type that holds two of one family; None where they have none."""
    one, two = left.type, right.type
    match left.family:
        case Family.TEXT:
            return pa.large_string()
        case Family.BINARY:
            return pa.large_binary() if pa.large_binary() in (one, two) else pa.binary()
        case Family.DURATION:
            return pa.duration(finest_unit(one, two))
        case Family.DATE:
            return pa.date64()
        case Family.TIME:
            unit = finest_unit(one, two)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        case Family.TIMESTAMP:
            refuse_mixed_zones(verb, left, right)
            if one.tz != two.tz:
                return None
            return pa.timestamp(finest_unit(one, two), one.tz)
        case _:
            return None
