"""Which tests run on Windows, and why the others do not.

A test file is in `FILES` or in `NOT_RUN`; `tests/unit/test_windows_selection.py` sees to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

FILES = (
    "tests/unit/test_portable.py",
    "tests/unit/test_append.py",
    "tests/unit/test_by_hand.py",
    "tests/unit/test_deciding.py",
    "tests/unit/test_format.py",
    "tests/unit/test_freshness.py",
    "tests/property/test_graph_laws.py",
    "tests/property/test_paired_text.py",
)
# Of files that are not run as a whole.
TESTS = (
    "tests/unit/test_hook.py::test_nobody_waits_for_a_large_event_and_it_is_kept",
    "tests/unit/test_hook.py::test_the_plugin_says_what_is_installed",
    "tests/unit/test_many_writers.py::test_a_lock_of_a_dead_process_holds_nobody_up",
    "tests/unit/test_many_writers.py::test_a_lock_held_by_a_living_process_leaves_the_cell_in_the_journal",
    "tests/unit/test_many_writers.py::test_a_journal_held_by_a_living_process_leaves_the_cell_in_a_side_file",
    "tests/unit/test_no_loss.py::test_of_many_who_want_the_same_id_one_gets_it",
)

# Tests of `FILES` that cannot be on Windows.
LEFT_OUT = {
    "test_portable.py::test_a_notebook_named_after_a_device_has_a_session_all_the_same": "no such "
    "file can be",
    "test_append.py::test_files_are_the_users_own": "Windows has no modes; what is below a user's "
    "home is the user's own there",
    "test_freshness.py::test_odd_things_at_a_path_are_described_and_never_opened_for_long": "makes "
    "a named pipe",
}

_MINUTES = "passes for the most part, but takes a minute or more in Wine"
_TERMINAL = "draws into a POSIX terminal, and cannot be imported"
_EXTRA = "needs the extra llm or prices of models, which the Windows machine is not given"
_LARGE = "did not end within four minutes in Wine"
_TEXT = "rules on text: nothing of the system is in them"
_UNTRIED = "not tried there yet"
NOT_RUN = {
    "property/test_any_interleaving.py": "passes, but takes a minute in Wine",
    "property/test_migrating_anything.py": _LARGE,
    "property/test_paired_merging.py": _LARGE,
    "property/test_text_and_digests.py": _TEXT,
    "property/test_value_digests.py": _TEXT,
    "unit/test_archive.py": _MINUTES,
    "unit/test_bad_input.py": "takes three minutes; limits of memory and named pipes are POSIX",
    "unit/test_blame.py": "calls git, which is not in Wine",
    "unit/test_calls_commands.py": _EXTRA,
    "unit/test_chat_api.py": _EXTRA,
    "unit/test_cli.py": _TERMINAL,
    "unit/test_comparing.py": _TERMINAL,
    "unit/test_complexity.py": _TEXT,
    "unit/test_doctor.py": _MINUTES,
    "unit/test_hook.py": _MINUTES,
    "unit/test_importing.py": "measures memory as POSIX does, and expects POSIX paths",
    "unit/test_index.py": _MINUTES,
    "unit/test_lab_saves.py": _UNTRIED,
    "unit/test_labextension.py": "looks at files of the repository only",
    "unit/test_lease.py": "asks for the machine's name as POSIX does",
    "unit/test_linting.py": _UNTRIED,
    "unit/test_listening.py": _UNTRIED,
    "unit/test_many_writers.py": "fifty processes and two hundred kills take minutes in Wine",
    "unit/test_messages_api.py": _UNTRIED,
    "unit/test_migrating.py": _LARGE,
    "unit/test_models.py": _EXTRA,
    "unit/test_nested.py": _EXTRA,
    "unit/test_no_loss.py": _UNTRIED,
    "unit/test_objects.py": _MINUTES,
    "unit/test_offline_model.py": _UNTRIED,
    "unit/test_opening.py": _UNTRIED,
    "unit/test_overheard.py": "forks, and has the environment in bytes as POSIX has",
    "unit/test_pairing.py": _UNTRIED,
    "unit/test_people_edit.py": _UNTRIED,
    "unit/test_picture.py": _UNTRIED,
    "unit/test_privacy.py": _UNTRIED,
    "unit/test_question_contexts.py": _UNTRIED,
    "unit/test_scrub.py": _UNTRIED,
    "unit/test_secrets.py": _UNTRIED,
    "unit/test_selecting.py": _UNTRIED,
    "unit/test_serving.py": _UNTRIED,
    "unit/test_session.py": "a kernel that stays writes to a file, which Wine's Python cannot; "
    "expects POSIX paths",
    "unit/test_searched.py": _UNTRIED,
    "unit/test_session_start.py": _UNTRIED,
    "unit/test_tools.py": _UNTRIED,
    "unit/test_transcripts.py": _UNTRIED,
    "unit/test_variables.py": _UNTRIED,
    "unit/test_which_session.py": _UNTRIED,
    "unit/test_windows_selection.py": "looks at this file only",
    "unit/test_working_memory.py": _UNTRIED,
}


class LeaveOut:
    """Take out what cannot be on Windows, and say so."""

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Deselect the tests of `LEFT_OUT`."""
        left_out = [item for item in items if _is_left_out(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def pytest_report_header(self) -> Iterable[str]:
        """Name each test that is left out, with its reason."""
        return [f"left out: {name}: {reason}" for name, reason in LEFT_OUT.items()]


def _is_left_out(nodeid: str) -> bool:
    return nodeid.rpartition("/")[2].partition("[")[0] in LEFT_OUT
