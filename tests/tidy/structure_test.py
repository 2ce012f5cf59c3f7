"""Structure rules of the project: who may include whom, file and function sizes, forbidden folder names.

Run from anywhere: python3 tests/tidy/structure_test.py. Prints each violation as path:line and exits 1."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_LINE_COLUMNS = 120
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
TOP_LEVEL = {
    "CMakeLists.txt",
    "CMakePresets.json",
    "README.md",
    "proto",
    "server",
    "client",
    "kernels",
    "deploy",
    "tests",
}

# folder -> folders it may include, besides itself and proto/base. The longest matching prefix of a path decides.
# "generated" stands for the headers that protoc writes.
ALLOWED = {
    "proto/base": [],
    "proto/wire": ["generated"],
    "proto/plan": ["generated"],
    "kernels/api": [],
    "kernels/math": ["kernels/api"],
    "kernels/ref": ["kernels/api", "kernels/math"],
    "kernels/cpu": ["kernels/api", "kernels/math"],
    "server/env": ["kernels/api"],
    "server/stats": [],
    "server/session": [],
    "server/config": ["generated"],
    "server/sequencer": ["kernels/api", "server/env"],
    "server/collective": ["kernels/api", "server/env", "server/stats"],
    "server/table": ["kernels/api", "kernels/math", "proto/plan", "server/env", "server/stats", "generated"],
    "server/input": ["proto/wire", "proto/plan", "kernels/api", "server/collective", "server/stats", "generated"],
    "server/output": ["proto/wire", "proto/plan", "kernels/api", "server/collective", "server/stats", "generated"],
    "server/flow": [
        "server/input",
        "server/table",
        "server/output",
        "server/session",
        "server/sequencer",
        "server/collective",
        "server/stats",
        "server/env",
        "kernels/api",
        "proto/wire",
        "proto/plan",
        "generated",
    ],
    "server/admission": ["server/env", "server/stats", "server/config"],
    "server/rpc": [
        "server/flow",
        "server/admission",
        "server/session",
        "server/stats",
        "server/config",
        "server/env",
        "proto/wire",
        "proto/plan",
        "generated",
    ],
    "client/cpp": ["proto/wire", "proto/plan", "generated"],
    "client/cpp/tools": ["client/cpp/include"],
    "client/cpp/examples": ["client/cpp/include"],
}
# Files that may include everything of their part: the composition root.
FREE = {"server/server.h", "server/server.cc", "server/main.cc"}
# Walls: an include of this prefix only below these folders.
WALLS = {
    "grpcpp/": ("server/rpc/", "server/server.", "client/cpp/", "tests/"),
    "grpc/": ("server/rpc/", "server/server.", "client/cpp/", "tests/"),
    "nccl.h": ("server/collective/nccl",),
    "cuda": ("kernels/cuda/", "server/collective/nccl"),
    "cub/": ("kernels/cuda/",),
}
OURS = ("proto/", "kernels/", "server/", "client/", "tests/")


def tracked(*patterns):
    command = ["git", "ls-files", "-co", "--exclude-standard", *patterns]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in out.split() if (ROOT / name).is_file()]


def folder_rule(path):
    """The longest key of ALLOWED that `path` lies below, or None."""
    matches = [key for key in ALLOWED if path.startswith(key + "/")]
    return max(matches, key=len) if matches else None


def include_target(include):
    """Which rule an include belongs to: a key of ALLOWED, 'generated', or None for what is not ours."""
    if include.endswith((".pb.h",)):
        return "generated"
    if include.startswith("embps/"):
        return "client/cpp/include"
    if not include.startswith(OURS):
        return None
    return folder_rule(include) or include.rsplit("/", 1)[0]


def check_include(path, include):
    for wall, places in WALLS.items():
        if include.startswith(wall) and not include.startswith("grpc/health") and not path.startswith(places):
            return f"{include} may only be included below {', '.join(places)}"
    rule, target = folder_rule(path), include_target(include)
    if rule is None or target is None or path in FREE or path.startswith("tests/"):
        return None
    if target == rule or target == "proto/base" or target.startswith(rule + "/"):
        return None
    if target == "client/cpp/include" and rule.startswith("client/cpp"):
        return None
    return None if target in ALLOWED[rule] else f"{rule} may not include {include}"


def check_includes(path, lines):
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        fault = check_include(path, match.group(1)) if match else None
        if fault:
            yield number, fault


def check_functions(path, lines):
    """A function body at namespace or class scope: from a line that ends in `{` after a `)` to the matching brace."""
    depth, start, entry = 0, None, 0
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*', "", line)
        opens_body = re.search(r"\)\s*(const|override|final|noexcept|->.*|\s|:.*)*\{\s*$", code)
        if start is None and opens_body and not re.match(r"\s*(if|for|while|switch|else|do|namespace)\b", code):
            start, entry = number, depth
        depth += code.count("{") - code.count("}")
        if start is not None and depth <= entry:
            if number - start + 1 > MAX_FUNCTION_LINES and not path.startswith("tests/"):
                yield start, f"function of {number - start + 1} lines, at most {MAX_FUNCTION_LINES}"
            start = None


def check_file(path):
    lines = (ROOT / path).read_text().splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield len(lines), f"file of {len(lines)} lines, at most {MAX_FILE_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE_COLUMNS and not path.endswith((".md", ".json")):
            yield number, f"{len(line)} columns, at most {MAX_LINE_COLUMNS}"
        if re.search(r"\b(TODO|FIXME|XXX)\b", line) and path != "tests/tidy/structure_test.py":
            yield number, "unfinished work belongs to an owner file, not into the code"
    if path.endswith((".h", ".cc", ".cu")):
        yield from check_includes(path, lines)
        yield from check_functions(path, lines)


def check_names():
    for path in tracked():
        parts = path.split("/")
        if len(parts) > 1 and parts[0] not in TOP_LEVEL and not parts[0].startswith("."):
            yield path, 0, f"top-level folder {parts[0]} is not part of the house"
        if len(parts) == 1 and path not in TOP_LEVEL and not path.startswith("."):
            yield path, 0, "not part of the top level"
        stems = {part.split(".")[0].lower() for part in parts}
        stems |= {word for stem in stems for word in stem.split("_")}
        if stems & FORBIDDEN_NAMES:
            yield path, 0, f"a name that says nothing: {', '.join(stems & FORBIDDEN_NAMES)}"


def self_check():
    """Each rule must find the fault it is for."""
    assert check_include("proto/wire/x.cc", "grpcpp/grpcpp.h")
    assert check_include("server/input/x.cc", "server/table/shard_store.h")
    assert check_include("kernels/cpu/x.cc", "kernels/ref/x.h")
    assert check_include("client/cpp/tools/x.cc", "client/cpp/router.h")
    assert check_include("client/cpp/router.cc", "server/flow/core.h")
    assert not check_include("server/flow/x.cc", "server/input/x.h")
    assert not check_include("server/rpc/x.cc", "grpcpp/grpcpp.h")
    assert list(check_functions("server/x.cc", ["void F() {"] + ["  x();"] * 70 + ["}"]))
    assert not list(check_functions("server/x.cc", ["void F() {"] + ["  x();"] * 60 + ["}"]))


def main():
    self_check()
    faults = list(check_names())
    for path in tracked("*.h", "*.cc", "*.cu", "*.py", "*.sh", "*.proto"):
        faults += [(path, number, text) for number, text in check_file(path)]
    for path, number, text in faults:
        print(f"{path}:{number}: {text}")
    print(f"structure: {len(faults)} violations")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
