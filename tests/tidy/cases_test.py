#!/usr/bin/env python3
"""cases_test.py BUILD_DIR: every case of cases.md that this version has to handle is the number in some ctest name.

A number counts where it is a word of its own between underscores, dots, slashes or the ends: `N9_IdEqualToRows`.
Prints the numbers that no test bears and exits 1 when there are any. Build all tests first: those of a program that
was not built are unknown to ctest.
"""
import re
import subprocess
import sys

# The letter of the table in cases.md, and the numbers.
CASES = {
    "N": [1, *range(3, 21), 22],
    "S": [1, 2, 3, *range(7, 13), *range(16, 20), 22, 23, 25, 26, 28, 29],
    "F": [1, *range(6, 10), 11, 12, 21, 22, 23],
    "U": [2, 6, 8, 9],
}


def test_names(build_dir):
    listing = subprocess.run(["ctest", "--test-dir", build_dir, "-N"], check=True, capture_output=True, text=True)
    return re.findall(r"^ *Test +#\d+: (.+)$", listing.stdout, re.MULTILINE)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: cases_test.py BUILD_DIR")
    names = test_names(sys.argv[1])
    unbuilt = [name for name in names if name.endswith("_NOT_BUILT")]
    words = {word for name in names for word in re.split(r"[^A-Za-z0-9]+", name)}
    wanted = [f"{letter}{number}" for letter, numbers in CASES.items() for number in numbers]
    missing = [case for case in wanted if case not in words]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} cases have a test, among {len(names)} tests")
    if unbuilt:
        print(f"programs that were not built: {' '.join(unbuilt)}")
    if missing:
        print(f"no test bears the number of: {' '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
