"""The rules of the house: layers, weight of imports, versions, what may be committed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from setuptools import Distribution

import semflip_core

HEAVY = (
    "torch",
    "transformers",
    "spacy",
    "cv2",
    "ray",
    "onnxruntime",
    "onnx",
    "rclpy",
    "mujoco",
    "trimesh",
    "rosbags",
    "sklearn",
    "pyarrow",
    "PIL",
    "scipy",
    "matplotlib",
)
LARGEST_FILE = 10_000_000
#: Module -> distribution, where the names differ.
OTHER_NAMES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "patchmatch": "patchmatch-cython",
    "tf2_ros": "tf2_ros_py",
    "backports": "backports.zstd",
    "rcl_interfaces": "rclpy",
}
ROOMS = ("semflip_core", "semflip_ros", "semflip_train")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources(root: Path, *rooms: str) -> Iterator[tuple[Path, ast.Module]]:
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            yield path.relative_to(root), parsed(path)


def imports(tree: ast.AST) -> set[str]:
    """Top-level names of everything imported anywhere below, also inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def tracked(root: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = listed.stdout.decode().split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def setup_arguments(root: Path) -> dict[str, Any]:
    """What setup.py passes to setuptools."""
    with mock.patch("setuptools.setup") as setup:
        source = (root / "setup.py").read_text()
        exec(compile(source, str(root / "setup.py"), "exec"), {"__file__": str(root / "setup.py")})
    return dict(setup.call_args.kwargs)


def requirement_name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")


BLOCKED_IMPORT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {heavy!r}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
import semflip_core, semflip_core.agent, semflip_core.gate, semflip_core.decision
import semflip_core.memory
import semflip_core.ingest, semflip_core.recall, semflip_core.encoders, semflip_core.settings
"""


def test_the_core_imports_without_heavy_libraries() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", BLOCKED_IMPORT.format(heavy=HEAVY)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr


def test_every_module_of_the_core_imports_without_heavy_libraries(root: Path) -> None:
    """Heavy libraries are imported inside functions, never at the top of a module of the core."""
    wrong = {
        str(path): sorted(top)
        for path, tree in sources(root, "semflip_core")
        if (top := imports(ast.Module(_run_at_import(tree), [])) & set(HEAVY))
    }
    assert not wrong


def _run_at_import(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run when the module is imported; not function bodies, not TYPE_CHECKING."""
    found: list[ast.stmt] = []
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
    return found


def test_the_core_knows_nothing_of_ros_nor_training(root: Path) -> None:
    forbidden = {"rclpy", "semflip", "semflip_ros", "semflip_train", "std_msgs", "sensor_msgs"}
    wrong = {
        str(path): sorted(bad)
        for path, tree in sources(root, "semflip_core")
        if (bad := imports(tree) & forbidden)
    }
    assert not wrong


def test_offline_needs_no_ros(root: Path) -> None:
    wrong = [
        str(path)
        for path, tree in sources(root, "semflip_train")
        if imports(tree) & {"rclpy", "semflip", "semflip_ros"}
    ]
    assert not wrong


def test_nothing_is_unpickled_and_no_error_is_swallowed(root: Path) -> None:
    wrong = []
    for path, tree in sources(root, *ROOMS):
        if imports(tree) & {"pickle", "cPickle", "dill", "joblib", "shelve"}:
            wrong.append(f"{path}: imports an unpickler")
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                wrong.append(f"{path}:{node.lineno}: bare except")
            if (
                isinstance(node, ast.keyword)
                and node.arg == "allow_pickle"
                and ast.unparse(node.value) != "False"
            ):
                wrong.append(f"{path}:{node.value.lineno}: allow_pickle")
    assert not wrong


#: Where everything must be caught, and the function that does it.
BROAD = [
    ("semflip_core/agent.py", "ask"),  # a query becomes a Decision
    ("semflip_core/encoders/contract.py", "encoder_errors"),  # what an encoder raises becomes ours
    ("semflip_ros/worker.py", "_run"),  # carried to the thread that waits for the agent
]


def test_everything_is_caught_at_three_places_only(root: Path) -> None:
    found = [
        (str(path), function.name)
        for path, tree in sources(root, *ROOMS)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ExceptHandler)
        and node.type is not None
        and {"Exception", "BaseException"} & set(re.findall(r"\w+", ast.unparse(node.type)))
    ]
    assert found == BROAD


def test_versions_agree(root: Path) -> None:
    version = ElementTree.parse(root / "package.xml").findtext("version")
    assert setup_arguments(root)["version"] == version == semflip_core.__version__
    assert f"## {version}" in (root / "CHANGELOG.md").read_text()


def missing_extra_calls(root: Path) -> Iterator[tuple[str, str, str]]:
    """Place, library and extra of each error that tells users what to install."""
    for path, tree in sources(root, *ROOMS):
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).split(".")[-1] == "MissingExtraError"
                and all(isinstance(argument, ast.Constant) for argument in node.args[:2])
            ):
                library, extra = (ast.literal_eval(argument) for argument in node.args[:2])
                yield f"{path}:{node.lineno}", library, extra


def distribution(module: str) -> str:
    """The distribution that brings a module, by its usual name."""
    return OTHER_NAMES.get(module, module).lower().replace("_", "-")


def test_every_missing_extra_error_names_an_extra_that_brings_the_library(root: Path) -> None:
    arguments = setup_arguments(root)
    extras, base = arguments["extras_require"], arguments["install_requires"]
    for where, library, extra in missing_extra_calls(root):
        assert extra in extras, f"{where}: no extra '{extra}'"
        brought = {requirement_name(requirement) for requirement in [*base, *extras[extra]]}
        if extra == "ros":
            brought |= {name.removeprefix("ros-") for name in brought} | {"tf2-ros"}
        assert distribution(library) in brought, f"{where}: [{extra}] does not bring {library}"


def test_every_library_imported_is_declared(root: Path) -> None:
    """In setup.py; what comes with ROS, in package.xml."""
    arguments = setup_arguments(root)
    requirements = [*arguments["install_requires"], *arguments["extras_require"]["all"]]
    known = {requirement_name(requirement) for requirement in requirements}
    package = ElementTree.parse(root / "package.xml").getroot()
    known |= {(item.text or "").replace("_", "-") for item in package if "depend" in item.tag}
    own = {*ROOMS, "semflip", "compression"} | sys.stdlib_module_names
    undeclared = {
        f"{path}: {module}"
        for path, tree in sources(root, *ROOMS)
        for module in imports(tree) - own
        if distribution(module) not in known
    }
    assert not undeclared


def test_every_pin_has_its_reason(root: Path) -> None:
    bare = [
        line.strip()
        for line in (root / "setup.py").read_text().splitlines()
        if re.match(r'\s+"[a-zA-Z][\w-]*[<>=]=', line)
        and "#" not in line
        and not line.strip().startswith(('"ros-', '"colcon-', '"pytest>', '"hypothesis>', '"pre-'))
    ]
    assert not bare


def test_a_wheel_holds_weights_and_word_lists(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in the packages that is no source is in what setuptools would install."""
    monkeypatch.chdir(root)
    command = Distribution(setup_arguments(root)).get_command_obj("build_py")
    command.ensure_finalized()
    packed = {
        Path(source) / name
        for _, source, _, names in command.data_files  # type: ignore[attr-defined]
        for name in names
    }
    forgotten = [
        str(path.relative_to(root))
        for path in tracked(root)
        if path.relative_to(root).parts[0] in ROOMS
        and path.suffix not in (".py", ".cfg", ".md")
        and path.relative_to(root) not in packed
    ]
    assert not forgotten


def test_nothing_large_is_committed(root: Path) -> None:
    large = [p.name for p in tracked(root) if p.stat().st_size > LARGEST_FILE]
    assert not large


def test_text_files_end_well_and_lines_too(root: Path) -> None:
    kinds = {".py", ".md", ".yaml", ".yml", ".toml", ".cfg", ".xml", ".msg", ".action", ".txt"}
    wrong = []
    for path in tracked(root):
        if path.suffix not in kinds or path.relative_to(root).parts[0] == "data":
            continue
        text = path.read_text(encoding="utf-8")
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            wrong.append(f"{path.name}: must end with one newline")
        if path.suffix != ".md" and re.search(r"[ \t]+$", text, re.MULTILINE):
            wrong.append(f"{path.name}: trailing blanks")
    assert not wrong


def test_every_message_field_says_what_it_means(root: Path) -> None:
    bare = []
    for path in [*(root / "msg").iterdir(), *(root / "action").iterdir()]:
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            stripped = line.strip()
            speaks = "#" in line or " VERDICT_" in line  # those two constants say it themselves
            if stripped and not stripped.startswith(("#", "---")) and not speaks:
                bare.append(f"{path.name}:{number + 1}: {stripped}")
    assert not bare


def test_message_constants_are_those_of_the_core(root: Path) -> None:
    from semflip_core.decision import Reason, Verdict

    text = (root / "msg" / "Decision.msg").read_text()
    constants = dict(re.findall(r'^string ((?:VERDICT|REASON)_\w+) = "(\w*)"', text, re.MULTILINE))
    assert constants.pop("VERDICT_NONE") == constants.pop("REASON_NONE") == ""
    expected = {f"REASON_{reason.name}": reason.value for reason in Reason}
    expected |= {f"VERDICT_{verdict.name}": verdict.value for verdict in Verdict}
    assert constants == expected


def test_decision_message_carries_every_field_of_a_decision(root: Path) -> None:
    from dataclasses import fields

    from semflip_core.decision import Decision

    text = (root / "msg" / "Decision.msg").read_text()
    carried = set(re.findall(r"^[\w/\[\]]+ +([a-z]\w*)", text, re.MULTILINE))
    renamed = {"timings_ms": "timing_ms"}
    assert {renamed.get(field.name, field.name) for field in fields(Decision)} <= carried
