"""The notebook runs top to bottom, and shows what the run made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "reproduce.ipynb"


def texts(notebook) -> str:
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            found.append(output.get("text", "") or output.get("data", {}).get("text/markdown", ""))
    return "\n".join(found)


def test_it_is_kept_without_outputs():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.timeout(300)
def test_a_short_run_goes_through_and_shows_its_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMFLIP_SHORT", "1")
    monkeypatch.setenv("SEMFLIP_OUT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    shown = texts(notebook)
    assert "train        1 sequences, 3 answerable and 0 unanswerable" in shown
    assert "made answerable" in shown or "made referential" in shown
    assert "always refuse" in shown
    assert (tmp_path / "run" / "report.html").is_file()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/jpeg" in output.get("data", {})
    ]
    assert bool(pictures) == (tmp_path / "run" / "synth" / "contact_sheet.jpg").is_file()
