"""Files that a cell names, in its code, its commands and its variables.

Native readers, writers and programs open files that no event tells of: what is named counts as
read if it stayed as it was, and as written if it did not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from rlmnb import digest
from rlmnb.kernel.commandwords import is_plausible, overwritten_by, words_in
from rlmnb.kernel.look import Look
from rlmnb.kernel.paths import version_of
from rlmnb.kernel.scripts import mentioned_by, modules_of
from rlmnb.kernel.watch import Watch
from rlmnb.kernel.wildcards import found_by, listed_by, opened_whole

# Functions of libraries that read directories whole, unheard.
_READS_WHOLE = frozenset(
    {
        "ParquetDataset", "dataset", "open_dataset", "read_parquet", "read_table", "scan_csv",
        "scan_ipc", "scan_ndjson", "scan_parquet",
    }
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w*")


class NamedFiles:
    """Looks at them before a cell and after it."""

    def __init__(self, namespace: dict[str, Any], watch: Watch) -> None:
        self._namespace = namespace
        self._watch = watch

    def before(self, look: Look) -> None:
        """Take down what the files are that a cell names."""
        look.named = {os.path.abspath(path): version_of(path) for path in self._files(look)}
        if not look.may_run_commands:
            return
        strings = look.code.strings if look.code is not None else ()
        anew = {path for text in strings for path in overwritten_by(text)}
        look.overwritten = frozenset(map(os.path.abspath, anew))
        # What a command adds to, it builds on; afterwards that can no longer be seen.
        look.contents = {
            path: digest.of_file(path)
            for path, version in look.named.items()
            if version is not None and path not in look.overwritten
        }

    def _files(self, look: Look) -> set[str]:
        """Return every text a cell has that names a file."""
        texts = set(look.code.strings) if look.code is not None else set()
        commands = look.may_run_commands
        if commands:
            texts.update(word for text in list(texts) for word in words_in(text))
            texts |= mentioned_by(texts)
        spoken = {name for text in texts if commands for name in _NAME.findall(text)}
        values = self._texts_in(look.bindings if look.opaque else look.reads)
        named = {text for text in texts | set(values.values()) if is_plausible(text)}
        if commands:
            # A shell puts in the values of those variables that its command names.
            texts |= {value for name, value in values.items() if name in look.reads | spoken}
            look.listed = listed_by(texts & named)
            named.update(found_by(texts & named))
        if look.code is not None and not look.code.attributes.isdisjoint(_READS_WHOLE):
            folders, files = opened_whole(named)
            look.listed += folders
            named.update(files)
        return named

    def _texts_in(self, names: Iterable[str]) -> dict[str, str]:
        """Return the variables that can name a file."""
        values = {name: self._namespace.get(name) for name in names}
        return {
            name: str(value)
            for name, value in values.items()
            if isinstance(value, str | os.PathLike)
        }

    def after(self, look: Look) -> None:
        """Count as read or written what the cell names."""
        for path in look.listed:
            self._watch.note_listed(path)
        for path, before in (self._watch.commanded | look.named).items():
            now = version_of(path)
            if now is None and before is None:
                continue
            if now != before:
                was = look.contents.get(path, self._watch.read.get(path))
                anew = path in look.overwritten or path in self._watch.begun_anew
                was = None if anew else was
                self._watch.note_written(path, was, new=before is None)
            else:
                self._watch.note(path, only_named=not look.may_run_commands)
                if look.may_run_commands and path.endswith(".py"):
                    for each in modules_of(path):
                        self._watch.note(each)
