"""``semflip doctor``: is everything there, does it fit together, and does it fit the GPU?"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semflip_core.errors import MissingExtraError
from semflip_core.memory_plan import (
    GIB,
    Plan,
    Shape,
    frames_that_fit,
    model_shape,
    nominal_gpu_bytes,
    picture_tokens,
    plan,
)
from semflip_train.doctor_checks import (
    Check,
    check_dds,
    check_gpu,
    check_libraries,
    check_model,
    check_pipeline,
    check_python,
    check_ros,
    gpu_bytes,
)
from semflip_train.encoder_options import encoder_options as read_encoder_options

SIGNS = {"ok": "[green]ok[/green]", "note": "[yellow]note[/yellow]", "fail": "[red]fail[/red]"}
FAILED = 1


@dataclass(frozen=True, slots=True)
class _Planned:
    shape: Shape
    plan: Plan
    gpu: int
    fit: int

    def to_json(self) -> dict[str, Any]:
        """Plain values, bytes."""
        return {
            **asdict(self.plan),
            "total": self.plan.total,
            "gpu_bytes": self.gpu,
            "headroom": self.gpu - self.plan.total,
            "frames_that_fit": self.fit,
            "parameters": asdict(self.shape.parameters),
        }


def doctor(
    encoder: Annotated[str, typer.Option(help="Encoder that the robot runs.")] = "mini",
    encoder_options: Annotated[
        str, typer.Option(help="Its options, YAML: '{model: /models/qwen}'.")
    ] = "",
    retriever: Annotated[str | None, typer.Option(help="Retriever, where it is another.")] = None,
    gate: Annotated[Path | None, typer.Option(help="Gate file; default: the shipped one.")] = None,
    model: Annotated[
        str, typer.Option(help="Model of the memory plan: 3B, 7B, 32B-AWQ... or a directory.")
    ] = "7B",
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    gpu: Annotated[
        float | None, typer.Option(min=1.0, help="GPU memory in GB; default: this one's, or 48.")
    ] = None,
    frames: Annotated[int, typer.Option(min=1, help="Frames a question sees.")] = 32,
    width: Annotated[int, typer.Option(min=1, help="Picture width, pixels.")] = 640,
    height: Annotated[int, typer.Option(min=1, help="Picture height, pixels.")] = 480,
    max_pixels: Annotated[
        int, typer.Option(min=784, help="Pixel budget of a frame, as the encoder's option.")
    ] = 307_200,
    pipeline: Annotated[bool, typer.Option(help="Load encoder and gate as the node does.")] = True,
    json_output: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check the installation, and plan GPU memory for Qwen2.5-VL."""
    options = read_encoder_options(encoder_options)
    checks = [check_python(), *check_libraries(), check_gpu(), check_ros(), *check_dds()]
    folder = Path(str(options.get("model", model))).expanduser()
    if folder.is_dir():
        checks += check_model(folder)
    if pipeline:
        checks.append(check_pipeline(encoder, options, retriever, gate))
    memory = nominal_gpu_bytes(gpu) if gpu else gpu_bytes() or nominal_gpu_bytes(48)
    planned: _Planned | None = None
    try:
        shape = model_shape(folder if folder.is_dir() else model, dtype)
        tokens = picture_tokens(width, height, max_pixels)
        fit = frames_that_fit(shape, memory, tokens)
        planned = _Planned(shape, plan(shape, frames, tokens), memory, fit)
    except MissingExtraError as error:
        checks.append(Check("memory plan", "note", str(error)))
    if json_output:
        shown = planned.to_json() if planned else None
        typer.echo(json.dumps({"checks": [c.to_json() for c in checks], "plan": shown}))
    else:
        console = Console()
        console.print(checks_table(checks))
        if planned:
            name = folder if folder.is_dir() else model
            console.print(plan_table(f"Memory plan: {name}, {dtype}", planned))
    if any(check.state == "fail" for check in checks):
        raise typer.Exit(FAILED)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def checks_table(checks: list[Check]) -> Table:
    """Checks as a table."""
    table = Table("check", "", "found", title="semflip doctor")
    for check in checks:
        table.add_row(check.name, SIGNS[check.state], check.detail)
    return table


def plan_table(title: str, planned: _Planned) -> Table:
    """The memory plan as a table, GiB."""
    shape, parts = planned.shape, planned.plan
    table = Table("on the GPU", "GiB", "how it is known", title=title)

    def row(name: str, size: float, how: str) -> None:
        table.add_row(name, f"{size / GIB:.2f}", how)

    counted = f"{shape.parameters.total:,} parameters, counted on the architecture"
    row("weights", parts.weights, counted + (", 4 bits where AWQ" if shape.quantised else ""))
    row(
        f"kept keys and values of {parts.frames} frames",
        parts.states,
        f"{shape.token_bytes:,} bytes a token, {parts.tokens_per_frame} tokens a picture",
    )
    row("vision tower at work", parts.vision, "estimate")
    row("decoder at work", parts.reading, "estimate; never together with the tower")
    row("CUDA, kernels, fragmentation", parts.cuda, "estimate")
    row("together, at the peak", parts.total, "")
    row("GPU", planned.gpu, "")
    headroom = planned.gpu - parts.total
    row("headroom", headroom, "" if headroom >= 0 else "does not fit")
    table.add_section()
    table.add_row("frames that fit", str(planned.fit), f"at most, within {shape.context:,} tokens")
    stored = f"{parts.stored_per_frame / 1e6:.1f} MB a keyframe in the memory file"
    table.add_row("stored vision features", "", stored)
    return table
