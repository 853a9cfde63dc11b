"""The requests under `/rlmnb/api/`: sessions, status, plan, replay, graph, events."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from rlmnb.errors import InvalidNameError
from rlmnb.lab.confining import want_ours
from rlmnb.lab.endpoint import Endpoint, permitted, switch_in, text_in
from rlmnb.lab.judging import judge
from rlmnb.lab.streaming import Stream
from rlmnb.picture.forms import written
from rlmnb.picture.model import draw
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.planning import asked_for, plan, plan_as_dict
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session
from rlmnb.store import sessions
from rlmnb.store.layout import Place, sessions_root
from rlmnb.views import effectful, replies

if TYPE_CHECKING:
    from rlmnb.lab.desk import Desk

_FORMS = {"json": "application/json", "svg": "image/svg+xml", "mermaid": "text/plain"}
_LONGEST_SELECTOR = 20_000


class SessionsEndpoint(Endpoint):
    """All sessions, the one updated last first."""

    @permitted("read", "contents")
    async def get(self) -> None:
        """List them as `rlmnb sessions --json` does, by the paths that the server has for them."""
        self.answer(await self.aside(self._rows))

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for place, state in sessions.newest_first(sessions.all_places(sessions_root())):
            row = sessions.described(place, state)
            shown = self.desk.confines.path_of(place.notebook)
            rows.append({**row, "path": shown, "notebook": place.notebook})
        return rows


class StatusEndpoint(Endpoint):
    """How the cells of a notebook stand."""

    @permitted("read", "contents")
    async def get(self) -> None:
        """Say which cells hold and which do not, and why."""
        place = want_ours(self.asked())
        found = await self.aside(partial(judge, place, self.desk.replays.running_in(place)))
        shown = self.desk.confines.path_of(place.notebook)
        self.answer({"path": shown, "live": self.desk.is_live(place), **found})


class PlanEndpoint(Endpoint):
    """What a replay would do."""

    @permitted("read", "contents")
    async def post(self) -> None:
        """Answer as `rlmnb replay --dry-run --json` does."""
        place, body = self.asked_in_body()
        selector, effects = _selector(body), switch_in(body, "allow_effects")
        await self.desk.live.flush(place)
        self.answer(await self.aside(partial(_planned, place, selector, effects)))


def _planned(place: Place, selector: str | None, effects: bool) -> dict[str, object]:
    session = Session(place)
    only = asked_for(session, selector)[0] if selector else None
    return plan_as_dict(plan(session, Wishes(only=only, allow_effects=effects)))


def _selector(body: dict[str, Any]) -> str | None:
    selector = text_in(body, "selector")
    if selector is not None and len(selector) > _LONGEST_SELECTOR:
        raise InvalidNameError("the selector is too long", hint="name ranges of cells, like 2-40")
    return selector


class ReplaysEndpoint(Endpoint):
    """Where replays begin."""

    @permitted("execute", "kernels")
    async def post(self) -> None:
        """Begin a replay and say how it can be followed."""
        place, body = self.asked_in_body()
        selector = _selector(body)
        await self.desk.live.flush(place)
        if selector is not None:
            # A mistake in it is told now, not to whoever follows the replay.
            await self.aside(lambda: asked_for(Session(place), selector))
        replay = self.desk.replays.start(
            place,
            selector=selector,
            allow_effects=switch_in(body, "allow_effects"),
            keep_kernel=switch_in(body, "keep_kernel"),
        )
        self.answer({"id": replay.id}, HTTPStatus.ACCEPTED)


class ReplayEndpoint(Stream):
    """One replay, going on or over."""

    @permitted("read", "contents")
    async def get(self, name: str) -> None:
        """Tell all that it told so far, and the rest as it happens."""
        replay = self.desk.replays.find(name)
        with self.desk.bell.listen(replay.id) as queue:
            self.begin()
            known = list(replay.told)
            over = replay.over
            for event, told in known:
                await self.send(event, told)
            while not over and (heard := await self.next_of(queue)) is not None:
                await self.send(*heard)
                over = heard[0] in ("done", "error")
        self.end()

    @permitted("execute", "kernels")
    async def delete(self, name: str) -> None:
        """Interrupt it; what has run by now is kept."""
        self.desk.replays.interrupt(self.desk.replays.find(name))
        self.set_status(int(HTTPStatus.NO_CONTENT))
        self.finish()


class GraphEndpoint(Endpoint):
    """What the cells of a notebook need from one another."""

    @permitted("read", "contents")
    async def get(self) -> None:
        """Draw it."""
        place = want_ours(self.asked())
        form = self.get_query_argument("format", "json")
        if form not in _FORMS:
            raise InvalidNameError(f"no format {form[:40]!r}; there are {', '.join(_FORMS)}")
        cell = self.get_query_argument("cell", None)
        every = self.get_query_argument("all", "") in ("1", "true")
        drawn = await self.aside(partial(_drawn, place, form, cell, every))
        self.finish(drawn, set_content_type=f"{_FORMS[form]}; charset=utf-8")


def _drawn(place: Place, form: str, cell: str | None, every: bool) -> str:
    session = Session(place)
    chosen = str(session.cell(cell).cell_id) if cell else None
    picture = draw(
        session.index,
        stale_cells(session),
        effectful=effectful(session.cells),
        replies=replies(session.cells),
        cell=chosen,
        by_turn=False if every else None,
    )
    return written(picture, form)


class EventsEndpoint(Stream):
    """What happens to a notebook."""

    @permitted("read", "contents")
    async def get(self) -> None:
        """Tell of every change on disk, what is stale after it, and of replays that ended."""
        place = want_ours(self.asked())
        async with self.desk.news.of(place) as queue:
            seen = await self.desk.news.version(place)
            self.begin()
            await self.send("ready", seen)
            while (heard := await self.next_of(queue)) is not None:
                await self.send(*heard)
        self.end()


def routes(base: str, desk: Desk) -> list[tuple[str, type[Endpoint], dict[str, Any]]]:
    """Return the addresses, and who answers there."""
    found: dict[str, type[Endpoint]] = {
        r"sessions": SessionsEndpoint,
        r"status": StatusEndpoint,
        r"plan": PlanEndpoint,
        r"replay": ReplaysEndpoint,
        r"replay/([0-9a-f]{16})": ReplayEndpoint,
        r"graph": GraphEndpoint,
        r"events": EventsEndpoint,
    }
    return [
        (f"{base.rstrip('/')}/rlmnb/api/{address}", endpoint, {"desk": desk})
        for address, endpoint in found.items()
    ]
