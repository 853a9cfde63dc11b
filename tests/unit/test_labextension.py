"""What JupyterLab loads as it is: no build stands between these files and a browser."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import rlmnb

LAB = Path(rlmnb.__file__).parent / "lab" / "labextension"
SCRIPTS = sorted((LAB / "static").glob("*.js"))


def test_the_extension_has_the_version_of_the_package_and_the_entry_that_it_names():
    described = json.loads((LAB / "package.json").read_text(encoding="utf-8"))
    assert described["version"] == rlmnb.__version__
    build = described["jupyterlab"]["_build"]
    assert (LAB / build["load"]).is_file()
    assert build["extension"] == "./extension"


def test_every_script_that_is_imported_is_there():
    wanted = {
        name
        for script in SCRIPTS
        for name in re.findall(r"from '\./([^']+)'", script.read_text(encoding="utf-8"))
    }
    assert wanted
    assert wanted <= {script.name for script in SCRIPTS}


def test_no_script_makes_html_of_text():
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in text, f"{script.name} uses {way}"


def test_the_wheel_puts_everything_where_jupyter_looks():
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    build = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    shared = build["targets"]["wheel"]["shared-data"]
    assert shared["rlmnb/lab/labextension"] == "share/jupyter/labextensions/rlmnb"
    assert "share/jupyter/kernels/rlmnb" in shared.values()
    assert "etc/jupyter/jupyter_server_config.d/rlmnb.json" in shared.values()
