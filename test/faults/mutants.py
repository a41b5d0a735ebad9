"""``python -m faults.mutants``: each guard is taken out of a copy, and the tests must notice.

A mutation is an exact text and what replaces it; one whose text is gone fails the run, so that the
table cannot go stale. The copy holds the sources and tests only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from faults.suite import OUT, ROOT, write

#: What of the checkout the tests need.
COPIED = ("semflip_core", "semflip_ros", "semflip_train", "test", "config", "pyproject.toml")
AGENT, GATE = "semflip_core/agent.py", "semflip_core/gate.py"
LOCATE, POSES = "semflip_core/locate.py", "semflip_core/poses.py"
CONTRACT, CLAIMS = "semflip_core/encoders/contract.py", "semflip_core/claims.py"
MAKER = "semflip_core/feature_maker.py"
QUERIES, WORKER = "semflip_ros/queries.py", "semflip_ros/worker.py"
#: Fast tests of everything that decides.
TESTS = (
    "test/core/test_agent.py",
    "test/core/test_guards.py",
    "test/core/test_gate.py",
    "test/core/test_set_aside.py",
    "test/core/test_locate.py",
    "test/core/test_poses.py",
    "test/core/test_pose_buffer.py",
    "test/core/test_claims.py",
    "test/ros/test_queries.py",
)


@dataclass(frozen=True)
class Mutant:
    """A guard that is taken away.

    Args:
        guard: what it guards, in words.
        file: relative to the checkout.
        old: the exact text, there once.
        new: what it becomes.
    """

    guard: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant("tau is finite", GATE, "math.isfinite(tau) and 0.0 <= tau < 1.0",
           "not tau < 0.0 and not tau >= 1.0"),
    Mutant("tau in [0, 1)", GATE, "math.isfinite(tau) and 0.0 <= tau < 1.0", "math.isfinite(tau)"),
    Mutant("tau in the file", GATE, "tau: float = Field(ge=0.0, lt=1.0, allow_inf_nan=False)",
           "tau: float"),
    Mutant("tau at each decision", AGENT, "accepted = sound and valid_threshold(tau) and",
           "accepted = sound and"),
    Mutant("tau at each decision, its refusal", AGENT, "if not sound or not valid_threshold(tau):",
           "if not sound:"),
    Mutant("members finite", AGENT,
           "np.isfinite(members).all() and (members >= 0).all() and (members <= 1).all()",
           "not (members < 0).any() and not (members > 1).any()"),
    Mutant("members in [0, 1]", AGENT,
           "np.isfinite(members).all() and (members >= 0).all() and (members <= 1).all()",
           "np.isfinite(members).all()"),
    Mutant("members sound at all", AGENT, "if not sound or not valid_threshold(tau):",
           "if not valid_threshold(tau):"),
    Mutant("score <= tau", AGENT, "and score <= tau and", "and"),
    Mutant("a gate that refuses all", AGENT, "score <= tau and not self._refuses_all(gate)",
           "score <= tau"),
    Mutant("the refusal of the gate", AGENT, "        if not accepted:\n", "        if False:\n"),
    Mutant("fingerprint, field by field", GATE, "        if differences:\n", "        if False:\n"),
    Mutant("fingerprint at load", AGENT,
           "        if gate is not None:\n            gate.check_fingerprint(self.fingerprint())\n",
           ""),
    Mutant("fingerprint at each decision", AGENT,
           "        gate.check_fingerprint(self.fingerprint())\n        joint",
           "        joint"),
    Mutant("distance limit", AGENT, "or distance > gate.header.distance_limit:", "or False:"),
    Mutant("distance finite", AGENT, "if not math.isfinite(distance) or distance >",
           "if distance >"),
    Mutant("embedding finite", CONTRACT, "if not np.isfinite(self.vector).all():", "if False:"),
    Mutant("embedding not zero", CONTRACT, "if not self.vector.any():", "if False:"),
    Mutant("embedding's dimension", CONTRACT, "if self.vector.shape != (dimension,):",
           "if False:"),
    Mutant("relevance finite", CONTRACT,
           "if not np.isfinite(self.relevance).all() or (self.relevance < 0).any():", "if False:"),
    Mutant("relevance peak", AGENT,
           "if not has_peak(joint.relevance, self.settings.min_peak):", "if False:"),
    Mutant("relevance peak, finite", LOCATE,
           "if relevance.size == 0 or not np.isfinite(relevance).all():",
           "if relevance.size == 0:"),
    Mutant("a pose is known", LOCATE, "if record.pose is None:", "if False:"),
    Mutant("pose finite", POSES, "or not all(math.isfinite(v) for v in self.position):",
           "or False:"),
    Mutant("unit quaternion", POSES, "if abs(norm - 1.0) > QUATERNION_TOLERANCE:", "if False:"),
    Mutant("frame rule", LOCATE, "elif record.pose.frame_id != global_frame:", "elif False:"),
    Mutant("map rule", LOCATE, "elif record.map_id != map_id:", "elif False:"),
    Mutant("evidence close to the best", LOCATE,
           "if item.relevance < stand_in * ranked[0].relevance:", "if False:"),
    Mutant("no pose between two that jump", "semflip_core/pose_buffer.py",
           "if math.dist(before.position, after.position) > self._max_jump:", "if False:"),
    Mutant("atomic claim", CLAIMS,
           "            if self._owner:\n                return False\n", ""),
    Mutant("a late decision is discarded", QUERIES,
           "        if not pending.claim.take(owner):\n            return False\n",
           "        pending.claim.take(owner)\n"),
    Mutant("deadline", QUERIES, "elif pending.claim.expired(now):", "elif False:"),
    Mutant("full queue", WORKER, "if self._stopping or waiting >= self._capacity:",
           "if self._stopping:"),
    Mutant("an id again gets no second goal", QUERIES, "        if known is not None:\n",
           "        if False:\n"),
    Mutant("exception barrier", AGENT, "        except Exception as error:\n",
           "        except ZeroDivisionError as error:\n"),
    Mutant("a broken encoder forgets nothing", MAKER,
           "isinstance(made, EncoderError) and self._reads_another(keyframe_id):",
           "isinstance(made, EncoderError):"),
    Mutant("what was set aside is not recalled", "semflip_core/recall.py",
           "frozenset(unread())", "frozenset()"),
    Mutant("a dying worker is told of", WORKER, "            if not ended:\n",
           "            if False:\n"),
    Mutant("empty memory", AGENT, "if len(self.memory) == 0:", "if False:"),
)  # fmt: skip


def copy_of(root: Path, folder: Path) -> Path:
    """The sources and tests, away from the checkout."""
    copy = folder / "copy"
    copy.mkdir()
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


def noticed(copy: Path) -> tuple[bool, str]:
    """Whether the tests fail in the copy, and the first that does."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    kept = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if "rosidl" in p]
    environment["PYTHONPATH"] = os.pathsep.join([str(copy), *kept])
    tests = [name for name in TESTS if (copy / name).exists()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return done.returncode == 1, failed[0].split(" ")[1] if failed else ""


def mutate(copy: Path, mutant: Mutant) -> str:
    """Apply it; the file's text before.

    Raises:
        LookupError: its text is not there exactly once.
    """
    file = copy / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise LookupError(
            f"{mutant.file}: '{mutant.old}' is there {text.count(mutant.old)} times; "
            f"bring the mutant '{mutant.guard}' up to date"
        )
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return text


def main() -> int:
    """All mutants; the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="only guards whose name holds this")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="semflip_mutants_") as name:
        copy = copy_of(ROOT, Path(name))
        red, first = noticed(copy)
        if red:
            print(f"the tests fail without any mutant: {first}")
            return 1
        for mutant in MUTANTS:
            if given.match not in mutant.guard:
                continue
            began = time.monotonic()
            try:
                before = mutate(copy, mutant)
            except LookupError as error:
                print(error)
                wrong += 1
                continue
            found, test = noticed(copy)
            (copy / mutant.file).write_text(before, encoding="utf-8")
            wrong += not found
            rows.append({"guard": mutant.guard, "file": mutant.file, "noticed by": test})
            took = time.monotonic() - began
            print(f"{mutant.guard:36} {'noticed' if found else 'SURVIVED':9} {took:5.1f} s  {test}",
                  flush=True)  # fmt: skip
    if not given.match:
        write("mutants", {"rows": rows, "survived or stale": wrong}, given.out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
