"""``python -m faults.suite``: every fault at every moment, and what came of it.

Prints faults tried, goals wrongly published, queries without a decision, node deaths and keyframes
lost beyond one second; exits with 1 where any of them, or anything else, is not as promised.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faults.fault import Fault, Tried
    from faults.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "faults.json"
#: Trials on one node before its memory is emptied and filled again.
REFRESH = 25


def _leave_nothing_running() -> None:
    """End what a trial that failed half-way left behind."""
    from support.live import STARTED

    for process in STARTED:
        if process.child.poll() is None:
            process.child.kill()
            process.child.wait()


def own_domain() -> ExitStack:
    """This machine only, in a ROS domain of our own; before rclpy is imported."""
    from semflip_ros import shared_memory
    from semflip_ros.domain import OwnDomain, local_environment

    stack = ExitStack()
    domain = OwnDomain()
    stack.callback(domain.release)
    stack.callback(shared_memory.sweep)
    stack.callback(_leave_nothing_running)
    os.environ |= local_environment(domain.id, ROOT / "config" / "dds_loopback.xml")
    os.environ["ROS_LOG_DIR"] = stack.enter_context(tempfile.TemporaryDirectory())
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's would be inherited by the nodes
    return stack


#: Setting -> parameters of its stage.
SETTINGS: dict[str, dict[str, Any]] = {
    "compressed": {},
    "raw": {"transport": "raw"},
    "on file": {"on_file": True},
    "simulated clock": {"use_sim_time": True},
    "process": {"on_file": True},
}


def table() -> Iterator[Fault]:
    """Every fault of every seam but the process."""
    from faults import camera, memory, models, poses, surroundings

    yield from camera.faults()
    yield from poses.faults()
    yield from models.encoder_faults()
    yield from models.gate_faults()
    yield from memory.faults()
    yield from surroundings.clock_faults()
    yield from surroundings.dds_faults()


def trials() -> list[tuple[str, str, str, str, Callable[[Stage], Tried]]]:
    """``(setting, seam, fault, moment, try it)`` for each fault and moment."""
    from faults import processes
    from faults.fault import attempt
    from faults.moments import MOMENTS, RUNNING

    found: list[tuple[str, str, str, str, Callable[[Stage], Tried]]] = []
    for fault in table():
        for moment in fault.moments:
            found.append(
                (
                    fault.setting,
                    fault.seam,
                    fault.name,
                    moment,
                    lambda stage, f=fault, m=moment: attempt(f, m, stage),
                )
            )
    for name in processes.SIGNALS:
        for moment in MOMENTS:
            found.append(
                (
                    "process",
                    "process",
                    name,
                    moment,
                    lambda stage, n=name, m=moment: processes.ended(n, m, stage),
                )
            )
    for name, step in (
        ("SIGSTOP and SIGCONT", processes.paused),
        ("second instance on the same memory", processes.second_instance),
    ):
        for moment in RUNNING:
            found.append(
                (
                    "process",
                    "process",
                    name,
                    moment,
                    lambda stage, s=step, m=moment: s(m, stage),
                )
            )
    return found


def run(
    chosen: Sequence[tuple[str, str, str, str, Callable[[Stage], Tried]]],
    folder: Path,
    say: Callable[[str], None],
) -> list[Tried]:
    """Try the chosen ones, one node a setting; a stage that fails to start fails the run."""
    from faults.stage import ENCODER, Stage
    from support.colours import write_gate

    gate = write_gate(folder / "gate.safetensors", ENCODER)
    results: list[Tried] = []
    for setting, values in SETTINGS.items():
        mine = [trial for trial in chosen if trial[0] == setting]
        if not mine:
            continue
        stage = Stage(folder / setting.replace(" ", "_"), gate, **values)
        for number, (_, seam, name, moment, attempt) in enumerate(mine, start=1):
            results.append(attempt(stage))
            last = results[-1]
            if last.problems:
                say(f"{seam} / {name} / {moment}: {last.problems}")
            if number % REFRESH == 0 and setting != "process":  # that one starts anew each time
                stage.show_truth()
                say(f"{setting}: {number} of {len(mine)} tried")
        stage.close()
        if results:
            from faults.fault import note

            note(results[-1], stage)
    return results


def summary(results: Sequence[Tried]) -> dict[str, int]:
    """The figures of the promise."""
    pairs = {(r.seam, r.fault, r.moment) for r in results}
    return {
        "faults tried (fault and moment)": len(pairs),
        "goals wrongly published": sum(r.wrong_goals for r in results),
        "queries without a decision": sum(r.undecided for r in results),
        "node deaths that the fault does not explain": sum(r.deaths for r in results),
        "keyframes lost beyond one second": sum(r.keyframes_lost for r in results),
        "other broken promises": sum(bool(r.problems) for r in results),
    }


def write(name: str, figures: dict[str, Any], out: Path) -> None:
    """Add a part to the results file that docs/reliability.md is made from.

    Trials of a seam that is run by itself take the place of its earlier ones; fuzzing with another
    seed comes beside what was fuzzed before.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole = json.loads(out.read_text()) if out.exists() else {}
        if "trials" in figures and name in whole:
            seams = {trial["seam"] for trial in figures["trials"]}
            kept = [t for t in whole[name]["trials"] if t["seam"] not in seams]
            figures = {
                "trials": kept + figures["trials"],
                "seconds": round(sum(t["seconds"] for t in kept + figures["trials"])),
            }
        if "targets" in figures and name in whole:
            again = {(t["target"], t["first_seed"]) for t in figures["targets"]}
            before = whole[name]["targets"]
            kept = [t for t in before if (t["target"], t["first_seed"]) not in again]
            figures = figures | {"targets": kept + figures["targets"]}
        whole[name] = figures
        partial = out.with_suffix(".partial")
        partial.write_text(json.dumps(whole, indent=1, sort_keys=True))
        partial.replace(out)


def _extra(
    folder: Path, name: str, step: Callable[[Stage], dict[str, Any]]
) -> tuple[dict[str, Any], Tried]:
    """Something on a node of its own that is not a fault at a moment."""
    from faults.fault import Tried, note
    from faults.stage import ENCODER, Stage
    from support.colours import write_gate

    gate = write_gate(folder / "gate.safetensors", ENCODER)
    stage = Stage(folder / name, gate)
    tried = Tried(name, name, "")
    try:
        figures = step(stage)
    finally:
        stage.close()
    note(tried, stage)
    print(f"{name}: {figures} {tried.problems or ''}", flush=True)
    return figures | {"problems": tried.problems}, tried


def sample_of(
    found: list[tuple[str, str, str, str, Callable[[Stage], Tried]]], count: int, seed: int
) -> list[tuple[str, str, str, str, Callable[[Stage], Tried]]]:
    """So many trials, every seam among them, the same ones for a seed."""
    rng = random.Random(seed)
    shuffled = rng.sample(found, len(found))
    first = {trial[1]: trial for trial in reversed(shuffled)}
    rest = [trial for trial in shuffled if trial not in first.values()]
    return [*first.values(), *rest][:count]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite, or a sample of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seam", help="only this one")
    parser.add_argument("--match", default="", help="only faults whose name holds this")
    parser.add_argument("--moment", help="only this one")
    parser.add_argument("--sample", type=int, help="only so many, of every seam")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=0, help="random lifecycle sequences")
    parser.add_argument("--hostile", action="store_true", help="ask every hostile question too")
    parser.add_argument("--out", type=Path, help=f"results (make faults: {OUT.name})")
    given = parser.parse_args(arguments)
    with own_domain() as stack:
        from faults import hostile, lifecycle

        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semflip_faults_")))
        chosen = [
            trial
            for trial in trials()
            if given.sample != 0
            and (given.seam in (None, trial[1]))
            and given.match in trial[2]
            and (given.moment in (None, trial[3]))
        ]
        if given.sample:
            chosen = sample_of(chosen, given.sample, given.seed)
        began = time.monotonic()
        results = run(chosen, folder, lambda text: print(text, flush=True))
        extra: dict[str, Any] = {}
        if given.hostile:
            extra["hostile"], tried = _extra(folder, "hostile", lambda s: hostile.ask_all(s))
            results.append(tried)
        if given.sequences:
            extra["lifecycle"], tried = _extra(
                folder, "lifecycle", lambda s: lifecycle.sequences(s, given.sequences, given.seed)
            )
            results.append(tried)
    figures = summary([r for r in results if r.seam not in extra])
    for name in ("goals wrongly published", "queries without a decision"):
        figures[name] = summary(results)[name]
    figures["other broken promises"] = summary(results)["other broken promises"]
    took = time.monotonic() - began
    for name, count in figures.items():
        print(f"{name:45} {count:5d}")
    print(f"{len({(r.seam, r.fault) for r in results})} distinct faults, {took:.0f} s")
    if given.out:
        for name, counts in extra.items():
            write(name, counts, given.out)
        rows = [result.to_json() for result in results]
        write("faults", {"trials": rows, "seconds": round(took)}, given.out)
    failed = [name for name, count in figures.items() if count and not name.startswith("faults")]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
