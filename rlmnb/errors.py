"""Everything rlmnb raises on purpose.

Callers catch `RlmnbError` or one of its branches. The message says what is wrong, where, what was
wanted and what was found; `hint` is the next command to run.
"""


class RlmnbError(Exception):
    """Everything this package raises on purpose."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


def _with_hint(error: RlmnbError) -> str:
    return error.message if error.hint is None else f"{error.message}\n{error.hint}"


class UsageError(RlmnbError):
    """A command line that no command understands."""


class InvalidNameError(RlmnbError, ValueError):
    """A session id or cell id that is not a plain name; refused before a path is made from it."""


class SessionNotFoundError(RlmnbError, FileNotFoundError):
    """No session, or no notebook, answers to that name."""


class AmbiguousSessionError(RlmnbError, LookupError):
    """A prefix that more than one session answers to."""


class CellNotFoundError(RlmnbError, LookupError):
    """No cell, or more than one, answers to that id or prefix."""


class InvalidCellError(RlmnbError, ValueError):
    """A cell that would make the notebook invalid nbformat; refused before anything is written."""


class DependencyError(RlmnbError, ValueError):
    """A dependency on the cell itself, on an unknown cell, or around a cycle."""


class StatusError(RlmnbError, ValueError):
    """A move between two statuses that the status machine does not know."""


class ChangedSinceError(RlmnbError):
    """Something that was to be undone or replaced has been changed by others since."""

    exit_code = 1


class SchemaError(RlmnbError):
    """A record or session state that this version cannot read."""


class WorkingMemoryError(RlmnbError, ValueError):
    """A value that working memory cannot keep: not JSON, or more than it has room for."""


class NotebookError(RlmnbError):
    """The notebook is not one: empty, cut short, not JSON, not nbformat 4."""

    exit_code = 3


class ObjectError(RlmnbError):
    """An object that is missing, or whose bytes are not those its digest names."""

    exit_code = 3


class UnsafePathError(RlmnbError):
    """A path that leads out of where it should be: a symbolic link, a pipe, a foreign directory."""

    exit_code = 3


class LockTimeoutError(RlmnbError):
    """Another process held the session's lock for longer than the caller would wait."""

    exit_code = 3


class StorageError(RlmnbError):
    """The disk would not take it: full, read-only, no permission."""

    exit_code = 3


class KernelError(RlmnbError):
    """The managed kernel could not start, or ended before a cell was finished."""

    exit_code = 3


class LanguageError(RlmnbError):
    """A notebook whose code is no Python: it can be read, and not be run."""

    exit_code = 3


class MissingExtraError(RlmnbError, ImportError):
    """Something was asked for that needs an optional dependency, and that is not installed."""

    def __str__(self) -> str:
        return _with_hint(self)


class ModelError(RlmnbError):
    """A model did not answer, and asking it the same again would not help.

    It is raised in cells, where a notebook shows its text alone: so that has the next step, too.
    """

    def __str__(self) -> str:
        return _with_hint(self)


class NoModelError(ModelError):
    """No model was named, and none is configured."""


class ModelBusyError(ModelError):
    """A model did not answer this time: asking again, after `retry_after` seconds, may help."""

    def __init__(
        self, message: str, *, hint: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class ModelSilentError(ModelBusyError):
    """A model gave no answer in the time that it had."""


class CallNotKeptError(ModelError):
    """An answer was wanted that is not kept, where no call may be made."""


class AnswerError(ModelError, ValueError):
    """A model answered, and never in the form that was asked for."""


class BudgetError(ModelError):
    """A call would go past what may be spent, or past the depth that calls may nest."""
