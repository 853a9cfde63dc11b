"""The rules of dependencies: none on the cell itself, on an unknown cell, around a cycle."""

from rlmnb.errors import DependencyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


def check_edges(
    cell_id: str,
    dependencies: "Iterable[str]",
    known: "Collection[str]",
    parents: "Callable[[str], Iterable[str]]",
    session: str,
) -> None:
    """Refuse dependencies of a new cell that break a rule; the message has the path."""
    dependencies = tuple(dependencies)
    for dependency in dependencies:
        if dependency == cell_id:
            raise DependencyError(
                f"{cell_id} depends on itself: {cell_id} → {cell_id}",
                hint="leave the cell out of its own dependencies",
            )
        if dependency not in known:
            raise DependencyError(
                f"{cell_id or 'the new cell'} depends on {dependency}, "
                f"which is no cell of {session}",
                hint=f"see the cells there are: rlmnb cells {session}",
            )
    path = find_path(dependencies, cell_id, parents)
    if path is not None:
        shown = " → ".join((cell_id, *path))
        raise DependencyError(f"{cell_id} would depend on itself: {shown}")


def find_path(
    starts: "Iterable[str]", goal: str, parents: "Callable[[str], Iterable[str]]"
) -> "tuple[str, ...] | None":
    """Return the first path from one of `starts` up to `goal`, or None."""
    came_from: dict[str, str | None] = {}
    waiting = []
    for start in starts:
        came_from[start] = None
        waiting.append(start)
    while waiting:
        here = waiting.pop()
        if here == goal:
            path = [here]
            while (before := came_from[path[-1]]) is not None:
                path.append(before)
            return tuple(reversed(path))
        for parent in parents(here):
            if parent not in came_from:
                came_from[parent] = here
                waiting.append(parent)
    return None
