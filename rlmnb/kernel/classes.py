"""Classes that come back as they were, without the code that ran when they were first made.

A metaclass or an `__init_subclass__` of the notebook may count or register the classes it sees.
What that did is stored with whatever it was done to; done once more, it would be there twice.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from contextlib import contextmanager
from types import MemberDescriptorType
from typing import Any

_MAKING = ("__new__", "__init__", "__call__", "__prepare__", "__setattr__")
_HOOK = "__init_subclass__"


def runs_code_when_made(value: type) -> bool:
    """Tell whether making this class runs code of the notebook."""
    kind: type = type(value)
    kinds = [each for each in kind.__mro__ if _is_notebooks(each)]
    return any(name in vars(each) for each in kinds for name in _MAKING) or bool(
        _hooked(value.__mro__[1:])
    )


def equal_to_inherited(value: type) -> dict[str, Any]:
    """Return the attributes of a class that a base has, too, with the very same value.

    cloudpickle takes them for inherited; but what is then done to the base is not done to them.
    """
    return {
        name: each
        for name, each in vars(value).items()
        if any(name in vars(base) and vars(base)[name] is each for base in value.__bases__)
    }


def can_keep_slots(value: type) -> bool:
    """Tell whether the slots of a class can be made again: an iterator has told them already."""
    slots = vars(value).get("__slots__", ())
    return isinstance(slots, str | tuple | list | dict)


def move_slots(value: type, made_with: dict[str, Any], contents: dict[str, Any]) -> None:
    """Have a class made with its slots: set on it afterwards, they would be none."""
    if "__slots__" in contents:
        made_with["__slots__"] = contents.pop("__slots__")
    for name, each in [*contents.items()]:
        if isinstance(each, MemberDescriptorType) and _is_slot(value, name, each):
            del contents[name]  # it comes with the slots


def keep_order(value: type, contents: dict[str, Any]) -> None:
    """Have the attributes of a class set in the order it has them; cloudpickle sorts them."""
    contents.update({name: contents.pop(name) for name in vars(value) if name in contents})


def _is_slot(owner: type, name: str, each: MemberDescriptorType) -> bool:
    return each.__objclass__ is owner and each.__name__ == name


def make_class(
    kind: type, name: str, bases: tuple[type, ...], contents: dict[str, Any], *_: Any
) -> type:
    """Make a class to be filled, as the library's part of its metaclass would."""
    library = next(each for each in kind.__mro__ if not _is_notebooks(each))
    make: Any = library.__new__
    with _unhooked([each for base in bases for each in base.__mro__]):
        made: type = make(kind, name, bases, dict(contents))
    return made


def fill_class(made: type, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Give a class its attributes, whatever its metaclass does when they are set."""
    for name, value in state[0].items():
        if name != "_abc_impl":
            type.__setattr__(made, name, value)
            continue
        for each in value:
            abc.ABCMeta.register(made, each)  # type: ignore[arg-type]


def forget_registered(value: type) -> None:
    """Take from a class what was registered with it: it comes back with what it had then.

    A class that is still there is not made anew, only filled.
    """
    if isinstance(value, abc.ABCMeta) and _is_notebooks(value):
        abc._reset_registry(value)  # type: ignore[attr-defined]
        abc._reset_caches(value)  # type: ignore[attr-defined]


def _is_notebooks(value: type) -> bool:
    return value.__module__ == "__main__"


def _hooked(classes: Any) -> list[type]:
    return [each for each in classes if _is_notebooks(each) and _HOOK in vars(each)]


@contextmanager
def _unhooked(classes: list[type]) -> Iterator[None]:
    hooks = {each: vars(each)[_HOOK] for each in _hooked(classes)}
    for owner in hooks:
        type.__setattr__(owner, _HOOK, classmethod(_passing_on(owner)))
    try:
        yield
    finally:
        for owner, hook in hooks.items():
            type.__setattr__(owner, _HOOK, hook)


def _passing_on(owner: Any) -> Any:
    def hook(cls: type, **options: Any) -> None:
        super(owner, cls).__init_subclass__(**options)

    return hook
