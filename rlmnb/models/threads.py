"""Running calls side by side, in the order and with the results that their arguments fix."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Outcome(Generic[T]):
    """What became of one job."""

    __slots__ = ("error", "value")

    def __init__(self) -> None:
        self.value: list[T] = []
        self.error: BaseException | None = None

    def of(self, job: Callable[[], T]) -> None:
        try:
            self.value.append(job())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self.error = error

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value[0]


def side_by_side(jobs: Sequence[Callable[[], T]], limit: int) -> list[T]:
    """Do jobs at the same time, at most `limit` of them; return what each gave, in their order.

    All are done before the first error, in their order, is raised. An interrupt starts no more.
    """
    if len(jobs) == 1:
        return [jobs[0]()]
    outcomes: list[_Outcome[T]] = [_Outcome() for _ in jobs]
    left = iter(list(zip(jobs, outcomes, strict=True)))
    lock, finished = threading.Lock(), threading.Semaphore(0)
    stopped = False

    def work() -> None:
        while True:
            with lock:
                pair = None if stopped else next(left, None)
            if pair is None:
                break
            pair[1].of(pair[0])
        finished.release()

    workers = min(max(1, limit), len(jobs))
    for _ in range(workers):
        # Not one of `threading`: a program that counts its threads is to find none of ours.
        _thread.start_new_thread(contextvars.copy_context().run, (work,))
    try:
        for _ in range(workers):
            finished.acquire()
    except BaseException:
        with lock:
            stopped = True
        raise
    return [outcome.get() for outcome in outcomes]


def within(seconds: float, job: Callable[[], T]) -> T:
    """Do a job in a thread and wait that long; a job that takes longer is left to itself."""
    outcome: _Outcome[T] = _Outcome()
    done = threading.Event()

    def work() -> None:
        outcome.of(job)
        done.set()

    _thread.start_new_thread(contextvars.copy_context().run, (work,))
    if not done.wait(seconds):
        raise TimeoutError
    return outcome.get()


async def apart(job: Callable[[], T]) -> T:
    """Do a job in a thread while other code goes on."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    outcome: _Outcome[T] = _Outcome()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    def work() -> None:
        outcome.of(job)
        loop.call_soon_threadsafe(tell)

    _thread.start_new_thread(contextvars.copy_context().run, (work,))
    await done
    return outcome.get()


class WithTwin(Generic[P, T]):
    """A function with a twin for asynchronous code: `await map_reduce.aio(…)`."""

    def __init__(self, function: Callable[P, T]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: P.args, **options: P.kwargs) -> T:
        """Call the function."""
        return self._function(*args, **options)

    async def aio(self, *args: P.args, **options: P.kwargs) -> T:
        """Call the function while other code goes on."""
        return await apart(lambda: self._function(*args, **options))

    def __repr__(self) -> str:
        return repr(self._function)

    def __reduce__(self) -> str:
        return self._function.__name__


def check_limit(limit: Any) -> int:
    """Return how many calls may run at the same time; complain of anything but a number."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit is a number of calls, at least 1, found {limit!r}")
    return limit
