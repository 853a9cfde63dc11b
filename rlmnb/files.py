"""Locks, safe opens and atomic writes. Nothing else in the package writes to disk.

Every file is 0600 in a directory 0700. A symbolic link or a pipe that stands where one of our
files belongs is refused, never followed: whoever planted it must not choose what is read or
written.

Windows replaces and removes no file that anybody has open. So we wait for whoever has it for a
moment, a reader or a virus scanner; and what is locked there is a file beside, so that the holder
of a lock can replace what it guards.
"""

import errno
import os
import time

from rlmnb.errors import LockTimeoutError, NotebookError, StorageError, UnsafePathError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
_HAS_FLOCK: bool = fcntl is not None

_GUARDED = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_WINDOWS = os.name == "nt"
# How long others may have a file open that is to be read, replaced or removed, in seconds.
_IN_USE = 1.0
_CHUNK = 1 << 22
_UNIQUE_BYTES = 4
_POLL_FIRST, _POLL_LONGEST = 0.0005, 0.02


def storage_error(error: OSError, doing: str, path: str) -> StorageError:
    """Turn what the system said into an error that names the file and the way out."""
    hints = {
        errno.ENOSPC: "free some disk space, then run: rlmnb doctor --fix",
        errno.EDQUOT: "free some of your disk quota, then run: rlmnb doctor --fix",
        errno.EROFS: "the file system is read-only: set RLMNB_HOME to a place that can be written",
        errno.EACCES: "check who owns the directory, or set RLMNB_HOME to one of yours",
    }
    return StorageError(
        f"{path}: cannot {doing}: {error.strerror or error}", hint=hints.get(error.errno or 0)
    )


def make_directory(path: str) -> None:
    """Make a directory and its missing parents, each 0700."""
    try:
        # `os.makedirs` would give the parents the user's default mode.
        parent = os.path.dirname(path)
        if parent != path and not os.path.isdir(parent):
            make_directory(parent)
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
    except FileExistsError:
        if os.path.isdir(path):
            return  # another process was faster
        raise UnsafePathError(f"{path}: wanted a directory, found something else") from None
    except OSError as error:
        raise storage_error(error, "make the directory", path) from error


def refuse_link(path: str) -> None:
    """Refuse a symbolic link where one of our own directories belongs."""
    if os.path.islink(path):
        raise UnsafePathError(
            f"{path}: is a symbolic link to {os.readlink(path)!r}, wanted a directory of our own",
            hint=f"if you did not put it there, remove it: rm {path}",
        )


def _patiently(call: "Callable[..., Any]", *arguments: object) -> "Any":
    """Call what Windows refuses while somebody else has the file open, until they let go of it."""
    if not _WINDOWS:
        return call(*arguments)
    for left in polls(_IN_USE):
        try:
            return call(*arguments)
        except PermissionError:
            if left <= 0:
                raise
    raise AssertionError("polls ends only after its time")


def _open(path: str, flags: int, mode: int) -> int:
    if _WINDOWS:
        if os.path.islink(path):  # no flag refuses to follow one there
            raise OSError(errno.ELOOP, "is a symbolic link", path)
        if not os.path.isdir(path):
            descriptor: int = _patiently(os.open, path, flags, mode)
            return descriptor
    return os.open(path, flags, mode)


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and nothing else; a missing one raises FileNotFoundError."""
    try:
        descriptor = _open(path, flags | _GUARDED, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise UnsafePathError(
                f"{path}: is a symbolic link, wanted a file of rlmnb's own",
                hint=f"if you did not put it there, remove it: rm {path}",
            ) from None
        if error.errno == errno.ENXIO:
            raise UnsafePathError(f"{path}: is a pipe or a socket, wanted a file") from None
        raise
    if (os.fstat(descriptor).st_mode & 0o170000) != 0o100000:
        os.close(descriptor)
        raise UnsafePathError(f"{path}: is not a regular file")
    return descriptor


def read_all(descriptor: int) -> bytes:
    """Read an open file from its beginning to its end."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while chunk := os.read(descriptor, _CHUNK):
        parts.append(chunk)
    return b"".join(parts) if len(parts) != 1 else parts[0]


def read_bytes(path: str) -> bytes:
    """Read one of our files whole."""
    descriptor = open_regular(path)
    try:
        return read_all(descriptor)
    finally:
        os.close(descriptor)


def read_into_memory(path: str) -> bytearray:
    """Read one of our files into memory that can be changed, without another copy of it."""
    descriptor = open_regular(path)
    with open(descriptor, "rb", buffering=0) as file:
        data = bytearray(os.fstat(descriptor).st_size)
        view = memoryview(data)
        while view and (count := file.readinto(view)):
            view = view[count:]
    return data


def read_at(descriptor: int, start: int, length: int) -> bytes:
    """Read `length` bytes from `start`, fewer only at the end of the file."""
    parts = []
    os.lseek(descriptor, start, os.SEEK_SET)
    while length > 0 and (chunk := os.read(descriptor, length)):
        parts.append(chunk)
        length -= len(chunk)
    return b"".join(parts)


def write_all(descriptor: int, data: "bytes | memoryview") -> None:
    """Write every byte, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def copy_range(source: int, target: int, length: int) -> None:
    """Copy the first `length` bytes of one open file to another, inside the kernel where it can."""
    offset = 0
    native = getattr(os, "copy_file_range", None)
    while native is not None and offset < length:
        try:
            copied = native(source, target, length - offset, offset)
        except OSError as error:
            if offset or error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM):
                raise
            break
        if not copied:
            break
        offset += copied
    os.lseek(source, offset, os.SEEK_SET)
    while offset < length:
        chunk = os.read(source, min(_CHUNK, length - offset))
        if not chunk:
            raise NotebookError("the file became shorter while it was copied")
        write_all(target, chunk)
        offset += len(chunk)


class Replacement:
    """A new version of a file, written beside it and renamed over it when it is whole.

    Used as a `with` block: `commit()` renames; leaving without it removes the temporary file, so
    a failure leaves nothing behind.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        directory, name = os.path.split(path)
        unique = f"{os.getpid()}-{os.urandom(_UNIQUE_BYTES).hex()}"
        self._temporary = os.path.join(directory, f".{name}.{unique}.tmp")
        self.descriptor = -1

    def __enter__(self) -> "Self":
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _GUARDED
        try:
            self.descriptor = os.open(self._temporary, flags, 0o600)
        except OSError as error:
            raise storage_error(error, "write", self.path) from error
        return self

    def write(self, data: "bytes | memoryview") -> None:
        """Add bytes to the new version."""
        write_all(self.descriptor, data)

    def keep_mode_of(self, status: os.stat_result) -> None:
        """Give the new version the mode of the one it replaces: it is its owner's to choose."""
        if not _WINDOWS:
            os.fchmod(self.descriptor, status.st_mode & 0o777)

    def commit(self, still_right: "Callable[[], bool] | None" = None, *, wait: bool = True) -> bool:
        """Put the new version in place; False if `still_right`, asked last of all, says no."""
        if wait:
            os.fsync(self.descriptor)
        os.close(self.descriptor)
        self.descriptor = -1
        put: bool = _patiently(self._put, still_right)
        return put

    def _put(self, still_right: "Callable[[], bool] | None") -> bool:
        if still_right is not None and not still_right():
            return False
        os.replace(self._temporary, self.path)
        return True

    def commit_new(self) -> bool:
        """Put the new version where nothing is; False if something is there by now."""
        os.fsync(self.descriptor)
        os.close(self.descriptor)
        self.descriptor = -1
        try:
            os.link(self._temporary, self.path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if os.path.lexists(self.path):
                return False
            _patiently(os.replace, self._temporary, self.path)
        return True

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        remove(self._temporary)
        if isinstance(error, OSError):
            raise storage_error(error, "write", self.path) from error


def write_atomic(path: str, *parts: "bytes | memoryview", wait: bool = True) -> None:
    """Replace a file by these bytes: whoever reads sees the old version or the new one.

    Without `wait`, a power cut may take the new version with it; only for what can be made again.
    """
    with Replacement(path) as new:
        for part in parts:
            new.write(part)
        new.commit(wait=wait)


def share(path: str, other: str) -> None:
    """Let a second path have the bytes of a file that never changes, without copying if can be."""
    try:
        os.link(path, other)
    except FileExistsError:
        pass
    except OSError:  # another disk, or one without hard links
        write_atomic(other, read_bytes(path), wait=False)


def write_like(path: str, data: bytes) -> None:
    """Write a file of the user's own: in place, so that its mode and its links stay."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """Tell whether a file is one of ours that is gone in a moment."""
    number, dash, chance = name.removesuffix(".tmp").rpartition(".")[2].partition("-")
    hidden = name.startswith(".") and name.endswith(".tmp") and dash
    return bool(hidden) and number.isdecimal() and len(chance) == 2 * _UNIQUE_BYTES


def remove_leftovers(directory: str, name: str) -> None:
    """Remove temporary files of dead writers; only for the holder of the lock on `name`."""
    prefix = f".{name}."
    for entry in os.listdir(directory):
        if entry.startswith(prefix) and entry.endswith(".tmp"):
            remove(os.path.join(directory, entry))


def remove(path: str) -> None:
    """Remove a file; one that is gone already is fine."""
    try:
        _patiently(os.unlink, path)
    except FileNotFoundError:
        return


def remove_tree(path: str, *held: "Lock") -> None:
    """Remove a directory and what is below it, following no link out of it.

    `held` are the locks that keep others out of it. On Windows they go last: whoever comes then
    begins anew, and the directory stays for them.
    """
    import shutil

    try:
        if not _WINDOWS:
            shutil.rmtree(path)
            return
        for lock in held:
            lock.close_content()
        if not held:
            _patiently(shutil.rmtree, path)
            return
        shutil.rmtree(path, ignore_errors=True)
        for lock in held:
            lock.release()
            remove(lock.guard)
        _patiently(os.rmdir, path)
    except OSError as error:
        raise storage_error(error, "remove", path) from error


def remove_if_empty(path: str) -> bool:
    """Remove a directory that has nothing in it; any other stays."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def rename(old: str, new: str) -> None:
    """Move a file or directory aside."""
    _patiently(os.replace, old, new)


def point_link(link: str, target: str) -> None:
    """Let a symbolic link point to `target`, replacing a link but nothing else."""
    if os.path.lexists(link) and not os.path.islink(link):
        return
    temporary = f"{link}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        os.symlink(target, temporary)
        os.replace(temporary, link)
    except OSError:
        # A convenience for people: some file systems, and Windows users, cannot have it.
        if os.path.lexists(temporary):
            remove(temporary)


def append_durably(descriptor: int, data: bytes) -> None:
    """Add bytes to the end of an open file and wait until the disk has them.

    If the disk takes only a part, that part is taken back, so that no half line is left.
    """
    before = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        write_all(descriptor, data)
        getattr(os, "fdatasync", os.fsync)(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def append_line(path: str, text: str, *, limit: int) -> None:
    """Add a line to a small log, which forgets its older half when it is longer than `limit`."""
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            half = read_at(descriptor, size // 2, size).partition(b"\n")[2]
            os.close(descriptor)
            descriptor = -1
            write_atomic(path, half, wait=False)
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        write_all(descriptor, text.encode("utf-8", "backslashreplace") + b"\n")
    finally:
        if descriptor >= 0:
            os.close(descriptor)


class Lock:
    """An exclusive lock on a file, kept by the system: it ends with the process that holds it.

    The file is opened anew for each lock, so threads of one process exclude each other too.
    `descriptor` is the file, open for reading and writing.
    """

    def __init__(self, path: str, *, timeout: float) -> None:
        self.path = path
        self.guard = f"{path}.lock" if _WINDOWS and not path.endswith("lock") else path
        self._timeout = timeout
        self._guarding = -1
        self.descriptor = -1

    def attempt(self) -> bool:
        """Take the lock if it is free now."""
        try:
            guarding = open_regular(self.guard, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise storage_error(error, "lock", self.path) from error
        if not _try_lock(guarding):
            os.close(guarding)
            return False
        try:
            # Whoever removed the file meanwhile has made our lock guard nothing.
            same = os.stat(self.guard).st_ino == os.fstat(guarding).st_ino
        except FileNotFoundError:
            same = False
        if not same:
            os.close(guarding)
            return False
        self._guarding = self.descriptor = guarding
        if self.guard != self.path:
            self._open_content()
        return True

    def _open_content(self) -> None:
        self.descriptor = -1
        try:
            self.descriptor = open_regular(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise storage_error(error, "open", self.path) from error
        finally:
            if self.descriptor < 0:
                self.release()

    def close_content(self) -> None:
        """Let the file be replaced or removed on Windows, still keeping others out."""
        if self.descriptor >= 0 and self.descriptor != self._guarding:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> "Self":
        for _ in polls(self._timeout):
            if self.attempt():
                return self
        raise LockTimeoutError(
            f"{self.path}: another process has held the lock for {self._timeout:g} s",
            hint="wait for it to finish"
            + ("" if _WINDOWS else ", or find it with: fuser " + self.path),
        )

    def release(self) -> None:
        """Give the lock back."""
        self.close_content()
        if self._guarding >= 0:
            os.close(self._guarding)
            self._guarding = self.descriptor = -1

    def __exit__(self, *_: object) -> None:
        self.release()


def _try_lock(descriptor: int) -> bool:
    if not _HAS_FLOCK:
        return _try_lock_on_windows(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def _try_lock_on_windows(descriptor: int) -> bool:
    import msvcrt

    # Far past any content, so that the locked byte never hinders a reader.
    os.lseek(descriptor, 1 << 40, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:  # Windows says EACCES, Wine whatever went wrong before
        return False
    os.lseek(descriptor, 0, os.SEEK_SET)
    return True


def polls(timeout: float) -> "Iterable[float]":
    """Yield until `timeout` seconds have passed, once at least, resting longer each time."""
    end = time.monotonic() + timeout
    pause = _POLL_FIRST
    while True:
        left = end - time.monotonic()
        yield left
        if left <= 0:
            return
        time.sleep(min(pause, max(left, 0.0)))
        pause = min(pause * 2, _POLL_LONGEST)
