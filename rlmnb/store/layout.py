"""Where things are on disk. Paths are made here and nowhere else."""

import os

from rlmnb.files import make_directory, refuse_link, write_atomic
from rlmnb.ids import SessionId, check_session_id, is_reserved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NOTEBOOK = "session.ipynb"
JOURNAL = "journal.jsonl"
INDEX = "index.json"
BY_HAND = "by-hand.jsonl"
ARCHIVE = "archive"
BESIDE = ".rlmnb"


class Place:
    """Where one notebook lives, and what belongs to it.

    A session has a directory of its own under the root. A plain notebook stays where its owner put
    it, and everything of ours goes to `.rlmnb/` beside it.
    """

    __slots__ = ("directory", "index", "journal", "lock", "notebook", "objects", "session_id")

    def __init__(self, session_id: SessionId, notebook: str, directory: str, objects: str) -> None:
        self.session_id = session_id
        self.notebook = notebook
        self.directory = directory
        self.objects = objects
        self.journal = os.path.join(directory, JOURNAL)
        self.index = os.path.join(directory, INDEX)
        self.lock = os.path.join(directory, ".lock")

    @property
    def plain(self) -> bool:
        """Tell whether this is a notebook of its owner's and not a session of ours."""
        return os.path.dirname(self.notebook) != self.directory

    @property
    def lease(self) -> str:
        """Where a server says that it has the notebook open as a live document."""
        return os.path.join(self.directory, "lease.json")

    @property
    def by_hand(self) -> str:
        """Where traces of cells go that a person ran."""
        return os.path.join(self.directory, BY_HAND)

    @property
    def spill(self) -> str:
        """Where an event goes when the journal cannot be had."""
        return os.path.join(self.directory, "spill")

    @property
    def rewritten(self) -> tuple[str, ...]:
        """The files that change with every replay, whatever the cells do."""
        return self.notebook, self.journal, self.index

    def exists(self) -> bool:
        """Tell whether there is anything here."""
        return any(os.path.lexists(path) for path in (self.notebook, self.journal, self.spill))

    def prepare(self) -> None:
        """Make the directory, and refuse one that leads elsewhere."""
        if self.plain:
            refuse_link(os.path.dirname(self.directory))
        refuse_link(self.directory)
        if not os.path.isdir(self.directory):
            make_directory(self.directory)
            if self.plain:
                # Beside somebody's notebook is most often inside somebody's repository.
                ignore = os.path.join(os.path.dirname(self.directory), ".gitignore")
                if not os.path.lexists(ignore):
                    write_atomic(ignore, b"*\n")

    @property
    def name(self) -> str:
        """What to type to mean this: the session's id, or the notebook's path."""
        return self.notebook if self.plain else self.session_id

    @property
    def word(self) -> str:
        """The name as a shell takes it: a path may have spaces in it."""
        import shlex

        return shlex.quote(self.name)


def sessions_root(environ: "Mapping[str, str] | None" = None) -> str:
    """Return the directory that holds all sessions: $RLMNB_HOME or ~/.claude/rlm-sessions."""
    home = (os.environ if environ is None else environ).get("RLMNB_HOME")
    path = home or os.path.join("~", ".claude", "rlm-sessions")
    return os.path.abspath(os.path.expanduser(path))


def session_place(session_id: str, root: "str | None" = None) -> Place:
    """Return where the session with this id lives, or would."""
    name = check_session_id(session_id)
    root = root or sessions_root()
    directory = os.path.join(root, name)
    return Place(name, os.path.join(directory, NOTEBOOK), directory, os.path.join(root, "objects"))


def archive_of(session_id: str, root: str) -> str:
    """Return where the session with this id is kept once it is archived."""
    return os.path.join(root, ARCHIVE, f"{check_session_id(session_id)}.zip")


def notebook_place(path: str) -> Place:
    """Return where the notebook at `path` lives; a session's notebook is known by its directory."""
    real = os.path.realpath(path)
    if os.path.isdir(real):
        real = os.path.join(real, NOTEBOOK)
    directory, name = os.path.split(real)
    if name == NOTEBOOK and os.path.lexists(os.path.join(directory, JOURNAL)):
        return session_place(os.path.basename(directory), os.path.dirname(directory))
    beside = os.path.join(directory, BESIDE)
    return Place(
        _name_from(name), real, os.path.join(beside, name), os.path.join(beside, "objects")
    )


def _name_from(file_name: str) -> SessionId:
    stem = file_name.rsplit(".", 1)[0]
    plain = "".join(
        letter if letter.isascii() and letter.isalnum() else "-" for letter in stem
    ).strip("-")
    name = (plain or "notebook")[:100]
    return check_session_id(f"{name}-notebook" if is_reserved(name) else name)


def looks_like_path(target: str) -> bool:
    """Tell whether this names a file and not a session's id.

    A notebook's name ends in `.ipynb`, whether it is there yet or not; a directory counts if it is
    a session's. Anything else is taken for an id, and refused if it is not a plain one.
    """
    if "\0" in target:
        return False
    return target.endswith(".ipynb") or os.path.isfile(os.path.join(target, NOTEBOOK))


def place_of(target: str, root: "str | None" = None) -> Place:
    """Return the place a full id or a path names, whether or not anything is there yet."""
    return notebook_place(target) if looks_like_path(target) else session_place(target, root)
