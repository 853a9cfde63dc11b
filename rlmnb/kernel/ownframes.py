"""Tracebacks as a plain kernel shows them: without the functions of ours on the way."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rlmnb.kernel import listing, watch

_OURS = (listing.__file__, watch.__file__)


def hide_own_frames(shell: Any) -> None:
    """Have a shell show no frame of ours when an error went through one."""
    find = shell._get_exc_info

    def find_without_ours(*given: Any) -> Any:
        kind, error, traceback = find(*given)
        _part(traceback)
        seen: set[int] = set()
        cause = error
        while cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            _part(cause.__traceback__)
            cause = cause.__cause__ or cause.__context__
        return kind, error, traceback

    shell._get_exc_info = find_without_ours


def _part(traceback: TracebackType | None) -> None:
    """Take our frames out of a traceback; the first is never one of them."""
    while traceback is not None:
        while (below := traceback.tb_next) is not None and _is_ours(below):
            traceback.tb_next = below.tb_next
        traceback = below


def _is_ours(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code.co_filename in _OURS
