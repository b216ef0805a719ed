"""Our dataclasses beside those of the standard library: the same, whoever makes the methods."""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from tessel.errors.arguments import checks_arguments
from tessel.lazy import dataclass

Make = Callable[..., Any]
MAKERS = pytest.mark.parametrize("make", [dataclasses.dataclass, dataclass], ids=["theirs", "ours"])

_OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"slots": True},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"frozen": True, "eq": False, "slots": True},
    {"repr": False},
    {"order": True},
    {"frozen": True, "order": True, "slots": True},
    {"init": False},
]


def _told(make: Make, options: dict[str, bool]) -> list[object]:
    """Return all that can be seen of a class, its objects, and classes over it."""

    @make(**options)
    class Point:
        """A point."""

        x: int
        y: float = 0.5
        names: list[str] = field(default_factory=list, compare=False)
        kind: ClassVar[str] = "point"

    @make(**options)
    class Far(Point):
        """A point with more."""

        z: int = field(default=3, repr=False)
        made: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.x * 10)

    seen: list[object] = []

    def look(run: Callable[[], object]) -> None:
        try:
            seen.append(str(run()))
        except Exception as error:
            seen.append((type(error).__name__, str(error).replace("test_records", "")))

    for cls in (Point, Far):
        seen += [cls.__name__, cls.__doc__, cls.__match_args__]
        seen.append([(f.name, f.type, f.init, f.repr) for f in dataclasses.fields(cls)])
        seen.append(str(cls.__dataclass_params__))
        seen.append(getattr(cls, "__slots__", None))
        look(lambda cls=cls: str(inspect.signature(cls)))
        look(lambda cls=cls: str(cls(1)))
        look(lambda cls=cls: str(inspect.signature(cls.__init__)))
        look(lambda cls=cls: repr(cls(1, 2.0, ["a"])))
        look(lambda cls=cls: cls())
        look(lambda cls=cls: cls(1, wrong=2))
        look(lambda cls=cls: cls(1) == cls(1, 0.5, ["other"]))
        look(lambda cls=cls: cls(1) == cls(2))
        look(lambda cls=cls: cls(1) == (1, 0.5))
        look(lambda cls=cls: cls(1) < cls(2))
        look(lambda cls=cls: cls(1) >= cls(1))
        look(lambda cls=cls: cls(1) < 3)
        look(lambda cls=cls: cls.__hash__ is None)
        look(lambda cls=cls: hash(cls(1)) == hash(cls(1)))
        look(lambda cls=cls: dataclasses.asdict(cls(1)))
        look(lambda cls=cls: dataclasses.replace(cls(1), x=7).x)
        look(lambda cls=cls: copy.copy(cls(4, names=["b"])).names)
        look(lambda cls=cls: copy.deepcopy(cls(4)).y)
        look(lambda cls=cls: setattr(cls(1), "x", 2))
        if not {"frozen", "slots"} <= options.keys():  # theirs fails with an error of `super`
            look(lambda cls=cls: setattr(cls(1), "other", 2))
        look(lambda cls=cls: delattr(cls(1), "x"))
    return seen


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
def test_a_class_is_what_the_standard_library_makes(options: dict[str, bool]) -> None:
    theirs, ours = _told(dataclasses.dataclass, options), _told(dataclass, options)
    assert len(theirs) > 40
    for one, other in zip(theirs, ours, strict=True):
        if "object at 0x" not in str(one):
            assert other == one


def test_methods_are_made_when_they_are_called_and_not_before() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int

    before = {name: vars(Point)[name] for name in ("__init__", "__eq__", "__repr__", "__hash__")}
    point = Point(3)
    assert vars(Point)["__init__"] is not before["__init__"]
    assert all(vars(Point)[name] is before[name] for name in ("__eq__", "__repr__", "__hash__"))
    assert point == Point(3)
    assert vars(Point)["__eq__"] is not before["__eq__"]
    assert hash(point) == hash((3,))
    assert repr(point).endswith("Point(x=3)")


@MAKERS
def test_methods_of_its_own_stay(make: Make) -> None:
    @make(frozen=True)
    class Own:
        x: int

        def __init__(self, x: str) -> None:
            object.__setattr__(self, "x", int(x))

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    assert Own("3").x == 3
    assert Own("3") == 4
    assert repr(Own("3")) == "own"
    assert list(inspect.signature(Own).parameters) == ["x"]
    assert hash(Own("3")) == hash((3,))

    @make(frozen=True)
    class Hashed:
        x: int

        def __hash__(self) -> int:
            return 11

    assert hash(Hashed(1)) == 11
    assert Hashed(1) == Hashed(1)


@MAKERS
@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_fields_that_no_argument_sets(make: Make, slots: bool, frozen: bool) -> None:
    @make(slots=slots, frozen=frozen)
    class Counted:
        self: int
        count: int = field(default=5, init=False)
        names: list[str] = field(default_factory=list, init=False)

    made = Counted(self=3)
    assert (made.self, made.count, made.names) == (3, 5, [])


@MAKERS
def test_arguments_of_any_kind_in_any_place(make: Make) -> None:
    chance = random.Random(5)
    for _ in range(200):
        kinds = [chance.choice(["plain", "default", "made", "named", "unset"]) for _ in range(6)]
        kinds.sort(key=lambda kind: kind in ("default", "made"))
        values: dict[str, Any] = {
            "default": field(default=7),
            "made": field(default_factory=list),
            "named": field(default=8, kw_only=True),
            "unset": field(default=9, init=False),
        }
        names = [chance.choice("abc") + str(number) for number in range(6)]
        chosen = {
            name: values[kind] for name, kind in zip(names, kinds, strict=True) if kind in values
        }
        chosen = {name: copy.copy(value) for name, value in chosen.items()}
        members = {"__annotations__": dict.fromkeys(names, "int"), **chosen}
        given = make(type("Some", (), members))
        plain = [name for name, kind in zip(names, kinds, strict=True) if kind == "plain"]
        made = given(*range(len(plain)))
        expected = {"default": 7, "made": [], "named": 8, "unset": 9}
        for name, kind in zip(names, kinds, strict=True):
            value = plain.index(name) if kind == "plain" else expected[kind]
            assert getattr(made, name) == value
        for name, kind in zip(names, kinds, strict=True):
            if kind == "unset":
                with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
                    given(*range(len(plain)), **{name: 3})
            elif kind != "plain":
                assert getattr(given(*range(len(plain)), **{name: 3}), name) == 3


def test_a_wrong_order_of_fields_is_told() -> None:
    for make in (dataclasses.dataclass, dataclass):
        with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):
            make(type("Some", (), {"__annotations__": {"x": "int", "y": "int"}, "x": 1}))(1, 2)


@MAKERS
def test_an_abstract_comparison_is_given(make: Make) -> None:
    class Ordered(abc.ABC):
        @abc.abstractmethod
        def __lt__(self, other: object) -> bool: ...

    @make(order=True)
    class Number(Ordered):
        x: int

    assert Number(1) < Number(2)


@MAKERS
@pytest.mark.parametrize("over", [dataclasses.dataclass, dataclass], ids=["theirs", "ours"])
def test_either_may_be_derived_from_the_other(make: Make, over: Make) -> None:
    @make(frozen=True)
    class Base:
        x: int = 1

    @over(frozen=True)
    class Derived(Base):
        y: int = 2

    class Plain(Derived):
        def __init__(self) -> None:
            super().__init__(5)
            self.z = 6  # no field, of a class that is no dataclass

    assert Derived(3) == Derived(3, 2)
    assert Derived(y=4).x == 1
    assert Plain().x == 5
    assert Plain().z == 6
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        Plain().x = 3
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        over(type("Other", (Base,), {"__annotations__": {"y": "int"}, "y": 0}))
    loose = make(type("Loose", (), {"__annotations__": {"y": "int"}, "y": 0}))
    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        over(frozen=True)(type("Other", (loose,), {}))


@dataclass(frozen=True, slots=True)
class Slotted:
    """Pickled by name."""

    x: int
    y: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wide:
    """Pickled by name."""

    x: int


def test_objects_are_pickled() -> None:
    for each in (Slotted(1, (2, 3)), Wide(4)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(each, protocol)) == each


def test_arguments_of_public_classes_are_checked() -> None:
    from tessel.errors import InvalidInputError

    @checks_arguments
    @dataclass(frozen=True)
    class Public:
        x: int

        def __post_init__(self) -> None:
            self.x + 1

    for _ in range(2):  # before and after the method is made
        with pytest.raises(InvalidInputError, match="whole number"):
            Public("a")  # type: ignore[arg-type]
    assert Public(3).x == 3
    assert str(inspect.signature(Public)) == "(x: 'int') -> None"


def test_importing_compiles_no_method() -> None:
    code = (
        "import dataclasses, sys\n"
        "made = []\n"
        "create = dataclasses.make_dataclass\n"
        "dataclasses.make_dataclass = lambda *a, **k: made.append(a[0]) or create(*a, **k)\n"
        "import tessel.clauses.filter, tessel.store.repository\n"
        "print(len(made))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 20
