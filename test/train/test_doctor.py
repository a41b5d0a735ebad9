"""``semflip doctor`` finds what is wrong and says what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semflip_core.checkpoints import weight_files
from semflip_core.errors import ConfigError
from semflip_core.loading import WEIGHTS
from semflip_train import doctor_checks
from semflip_train.cli import app
from semflip_train.doctor_checks import check_dds, check_libraries, check_model, check_pipeline
from semflip_train.encoder_options import encoder_options
from support.gates import linear_gate
from support.tiny_qwen import tiny_checkpoint


def states(checks: object) -> dict[str, str]:
    return {check.name: check.state for check in checks}  # type: ignore[attr-defined]


def test_a_sound_checkpoint_passes() -> None:
    assert set(states(check_model(tiny_checkpoint())).values()) == {"ok"}


def test_what_is_wrong_with_a_checkpoint_is_found(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint(), tmp_path / "model"))
    weight_files(folder)[0].unlink()
    (folder / "preprocessor_config.json").unlink()
    found = states(check_model(folder))
    assert found["model weights"] == found["model processor"] == "fail"
    assert found["model config"] == found["model tokenizer"] == "ok"


def test_versions_out_of_range_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(check_libraries())["transformers"] == "ok"
    monkeypatch.setattr(doctor_checks, "version", lambda name: "5.21.0")
    found = {check.name: check for check in check_libraries()}
    assert found["transformers"].state == "fail"
    assert "5.21.0 is not >= 5.18, < 5.21" in found["transformers"].detail
    assert found["torch"].state == "ok"


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor_checks.LIBRARIES, "no-such-library", ("1", "", "qwen"))
    found = {check.name: check for check in check_libraries()}["no-such-library"]
    assert found.state == "note" and "semflip[qwen]" in found.detail


def test_a_dds_profile_must_be_there_and_be_xml(tmp_path: Path, root: Path) -> None:
    def state(file: Path) -> str:
        return states(check_dds({"FASTDDS_DEFAULT_PROFILES_FILE": str(file)}))["dds profile"]

    broken = tmp_path / "broken.xml"
    broken.write_text("<dds>")
    assert state(root / "config" / "dds_loopback.xml") == "ok"
    assert state(broken) == state(tmp_path / "absent.xml") == "fail"
    assert states(check_dds({}))["dds profile"] == "note"


def test_a_gate_of_another_pipeline_fails_and_names_the_field(tmp_path: Path) -> None:
    import numpy as np

    gate = tmp_path / "gate.safetensors"
    fingerprint = {"encoder.name": "qwen2_5_vl", "encoder.dtype": "bfloat16"}
    linear_gate(np.ones(64, np.float32), fingerprint).save(gate)
    options = {"model": str(tiny_checkpoint()), "dtype": "float32"}
    found = check_pipeline("qwen2_5_vl", options, "support.colours:ColourEncoder", gate)
    assert found.state == "fail"
    assert "encoder.dtype" in found.detail


def test_the_command_prints_checks_and_a_plan(tmp_path: Path) -> None:
    arguments = ["doctor", "--no-pipeline", "--model", "7B", "--gpu", "48", "--frames", "32"]
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert "8,292,166,656 parameters" in shown.output
    assert "frames that fit" in shown.output
    run = CliRunner().invoke(app, [*arguments, "--json"])
    result = json.loads(run.stdout)
    parts = result["plan"]
    assert parts["headroom"] == parts["gpu_bytes"] - parts["total"] > 20 * 2**30
    failed = any(check["state"] == "fail" for check in result["checks"])
    assert run.exit_code == (1 if failed else 0)


def test_the_command_checks_a_model_directory(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint(), tmp_path / "model"))
    weight_files(folder)[0].unlink()
    run = CliRunner().invoke(app, ["doctor", "--no-pipeline", "--json", "--model", str(folder)])
    found = {check["name"]: check["state"] for check in json.loads(run.stdout)["checks"]}
    assert run.exit_code == 1 and found["model weights"] == "fail"


def test_encoder_options_are_a_mapping() -> None:
    assert encoder_options("{model: /m, layers: [12, -1]}") == {"model": "/m", "layers": [12, -1]}
    assert encoder_options(" ") == {}
    for wrong in ("[1]", "model", "{1: 2}", "{"):
        with pytest.raises(ConfigError, match="--encoder-options"):
            encoder_options(wrong)


def test_ask_takes_encoder_options(sample: Path) -> None:
    """The gate is made for this encoder, the checkpoint is not there: the options were read."""
    command = ["ask", "Where?", "--bag", str(sample / "sequences" / "test_0")]
    shipped = ["--gate", str(WEIGHTS / "mini_gate.safetensors")]
    options = ["--encoder", "qwen2_5_vl", "--encoder-options", "{model: /no/such/place}"]
    run = CliRunner().invoke(app, [*command, *shipped, *options])
    assert "/no/such/place" in str(run.exception)
