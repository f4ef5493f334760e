#!/usr/bin/env python3
"""Holds every include of the tree against the layers of docs/ARCHITECTURE.md.

    scripts/check_layers.py [ROOT]

Prints a line for each include that a layer may not have, and exits with 1.
"""

import pathlib
import re
import sys

# What each room may include beside itself. A room is the longest of these paths that a file is in.
SHARED = ["base", "codec", "wire", "lane"]
ROOMS: dict[str, list[str]] = {
    "base": [],
    "codec": ["base"],
    "wire": ["base"],
    "lane": ["base"],
    "graph/store": SHARED,
    "graph/import": [*SHARED, "graph/store"],
    "graph/sample": [*SHARED, "graph/store"],
    "graph/protocol": [*SHARED, "graph/store", "graph/sample"],
    "graph/serve": [*SHARED, "graph/store", "graph/sample", "graph/protocol"],
    "graph/client": [*SHARED, "graph/store", "graph/sample", "graph/protocol"],
    "attention/tier": SHARED,
    "attention/kv": [*SHARED, "attention/tier"],
    "attention/partial": [*SHARED, "attention/kv"],
    "attention/select": [*SHARED, "attention/kv"],
    "attention/predict": [*SHARED, "attention/kv", "attention/select"],
    "attention/decode": [
        *SHARED,
        "attention/kv",
        "attention/partial",
        "attention/predict",
        "attention/select",
        "attention/tier",
    ],
    "attention/profile": [*SHARED, "attention"],
    "cli": [*SHARED, "graph", "attention"],
}
# Frameworks stay above: kernels take pointers, sizes and strides.
FRAMEWORKS = re.compile(r"^(Python\.h|nanobind/|pybind11/|torch/|ATen/|c10/|llama\.h|ggml)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path: str) -> str | None:
    """The room of a path below offpath/."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in ROOMS:
            return "/".join(parts[:length])
    return None


def allowed(room: str, target: str) -> bool:
    return target == room or any(target == a or target.startswith(a + "/") for a in ROOMS[room])


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for folder in ("offpath", "adapters", "python", "tests", "bench", "fuzz"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            room = None
            if folder == "offpath":
                room = room_of(file.relative_to(root / folder).as_posix())
                if room is None:
                    found.append(f"{file.relative_to(root)}: in no layer: name it in {sys.argv[0]}")
                    continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                include = INCLUDE.match(line)
                if include:
                    problem = judge(root, room, include.group(1) == '"', include.group(2))
                    if problem:
                        found.append(f"{file.relative_to(root)}:{number}: {problem}")
    return found


def judge(root: pathlib.Path, room: str | None, quoted: bool, name: str) -> str | None:
    if room and FRAMEWORKS.match(name):
        return f"<{name}> belongs above the engines"
    if not quoted:
        return f"<{name}>: our headers are included in quotes" if name.startswith("offpath/") else None
    if name.startswith("hwy/"):  # Highway's own convention
        return None
    if not (root / name).is_file():
        return f'"{name}" is no path from the root of the tree'
    if room == "cli" and name.startswith("adapters/"):
        return None
    if room and not name.startswith("offpath/"):
        return f'"{name}" is outside of offpath/'
    if not room:
        return None
    target = room_of(name.removeprefix("offpath/"))
    if target is None or not allowed(room, target):
        return f'{room} may not include "{name}"'
    return None


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if len(sys.argv) == 1:
        root = root.parent.parent
    found = problems(root)
    for problem in found:
        print(problem)
    print(f"{len(found)} includes break the layers" if found else "layers hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
