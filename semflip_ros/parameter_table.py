"""The README's table of parameters, written from their declarations so that it cannot drift.

``python -m semflip_ros.parameter_table README.md`` rewrites the part between the two markers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from semflip_core.errors import ConfigError
from semflip_ros.node_settings import NodeSettings
from semflip_ros.parameters import allowed, flat_fields
from semflip_ros.replay import ReplaySettings

BEGIN = "<!-- parameters: made by python -m semflip_ros.parameter_table README.md -->"
END = "<!-- end of parameters -->"


def table(kind: type[BaseModel]) -> str:
    """Markdown table of a node's parameters: name, default, what is allowed, meaning."""
    rows = ["| parameter | default | takes | meaning |", "|---|---|---|---|"]
    for name, field in flat_fields(kind):
        default = field.get_default()
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        shown = (
            "[]" if default == () else shown.strip("()") if isinstance(default, tuple) else shown
        )
        meaning = (field.description or "").replace("|", "\\|")
        rows.append(
            f"| `{name}` | {f'`{shown}`' if shown else 'empty'} | {allowed(field)} | {meaning} |"
        )
    return "\n".join(rows)


def section() -> str:
    """All tables with their headings, between the markers."""
    return (
        f"{BEGIN}\n\n`refusal_node`:\n\n{table(NodeSettings)}\n\n"
        f"`replay`:\n\n{table(ReplaySettings)}\n\n{END}"
    )


def rewritten(text: str) -> str:
    """The document with its section replaced.

    Raises:
        ConfigError: a marker is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"the document lacks the markers '{BEGIN}' and '{END}'")
    return before + section() + after


def main() -> None:
    """Rewrite the file named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m semflip_ros.parameter_table README.md")
    file = Path(sys.argv[1])
    file.write_text(rewritten(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
