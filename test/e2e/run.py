#!/usr/bin/env python3
"""Runs the end-to-end tests (unittest modules test_*.py of this folder) on the tools of a build.

    run.py --bin build/dev/bin [--filter REGEX] [--output results.json]
"""
import argparse
import json
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python")]

from fusion import testing  # noqa: E402


def each(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from each(t)
        else:
            yield t


class Result(unittest.TextTestResult):
    """Remembers which tests passed; a sub-test that fails fails its test."""

    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test.id())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--filter")
    p.add_argument("--output", type=pathlib.Path)
    a = p.parse_args()
    testing.tools.bin = a.bin.resolve()
    found = [t for t in each(unittest.defaultTestLoader.discover(str(HERE))) if not a.filter or re.search(a.filter, t.id())]
    r = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, resultclass=Result).run(unittest.TestSuite(found))
    name = lambda t: getattr(t, "test_case", t).id()
    failed = sorted({name(t) for t, _ in r.failures + r.errors} | {name(t) for t in r.unexpectedSuccesses})
    if a.output:
        a.output.write_text(json.dumps({"passed": len(set(r.passed) - set(failed)), "failed": failed,
                                        "skipped": [f"{name(t)}: {why}" for t, why in r.skipped]}))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
