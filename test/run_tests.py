#!/usr/bin/env python3
"""Runs the test suites of a build and prints `N passed, N failed` as its last line.

    run_tests.py --build build/dev [--suite lit|unit|e2e|assemble ...] [--filter REGEX] [--jobs N]

lit: FileCheck tests of test/<Phase>; unit: GoogleTest programs of build/PRESET/unittests; e2e: test/e2e; assemble: every case of
test/gpu, compiled for the card (without ptxas it is skipped). Skipped tests are listed with their reason and count as neither.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 900  # of one unit test program


class Count:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def __str__(self):
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def gtest_reason(case):
    """The message of GTEST_SKIP, which follows the line `FILE:LINE`."""
    texts = [s.get("message", "") if isinstance(s, dict) else str(s) for s in case.get("skipped", [])]
    lines = [line.strip() for t in texts for line in t.splitlines()]
    return " ".join(line for line in lines if line and not re.fullmatch(r"\S+:\d+", line)) or "no reason given"


def run_lit(a, count):
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "lit.json"
        # lit has no __main__; its program may lie outside PATH.
        cmd = [sys.executable, "-c", "from lit.main import main; main()", "-sv", f"-j{a.jobs}", "--timeout=300", "--output", out, a.build / "test"]
        if a.filter:
            cmd += [f"--filter={a.filter}", "--allow-empty-runs"]
        rc = subprocess.run(cmd).returncode
        if not out.exists():
            if rc or not a.filter:
                count.failed.append(f"lit ended with exit code {rc} and no result")
            return
        for t in json.loads(out.read_text())["tests"]:
            if t["code"] in ("PASS", "XFAIL", "FLAKYPASS"):
                count.passed += 1
            elif t["code"] in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
                if t["code"] == "UNSUPPORTED":
                    count.skipped.append(f"{t['name']}: {' '.join(t.get('output', '').split()) or 'unsupported'}")
            else:
                count.failed.append(t["name"])


def run_unit(a, count):
    listed = a.build / "test" / "unittests.txt"
    names = listed.read_text().split() if listed.exists() else []
    for name in names:
        program = a.build / "unittests" / name
        if a.filter and not re.search(a.filter, name):
            continue
        with tempfile.TemporaryDirectory() as tmp:
            out = pathlib.Path(tmp) / "gtest.json"
            try:
                p = subprocess.run([program, f"--gtest_output=json:{out}", "--gtest_brief=1"], capture_output=True, text=True, errors="replace",
                                   timeout=TIMEOUT_S, cwd=tmp)
                rc, text = p.returncode, p.stdout + p.stderr
            except (OSError, subprocess.TimeoutExpired) as e:
                rc, text = 1, str(e)
            found = json.loads(out.read_text())["testsuites"] if out.exists() else []
            before = len(count.failed)
            for case in (c for s in found for c in s["testsuite"]):
                label = f"{name}: {case['classname']}.{case['name']}"
                if case.get("failures"):
                    count.failed.append(label)
                elif case.get("result") == "SKIPPED":
                    count.skipped.append(f"{label}: {gtest_reason(case)}")
                elif case.get("status") == "RUN":
                    count.passed += 1
            if rc and len(count.failed) == before:
                count.failed.append(f"{name}: ended with exit code {rc}")
            if rc:
                print(text[-8000:], flush=True)


def run_e2e(a, count):
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "e2e.json"
        cmd = [sys.executable, SOURCE / "e2e" / "run.py", "--bin", a.build / "bin", "--output", out]
        if a.filter:
            cmd += ["--filter", a.filter]
        rc = subprocess.run(cmd).returncode
        if not out.exists():
            count.failed.append(f"end-to-end runner ended with exit code {rc}")
            return
        r = json.loads(out.read_text())
        count.passed += r["passed"]
        count.failed += r["failed"]
        count.skipped += r["skipped"]


def run_assemble(a, count):
    site = (a.build / "test" / "lit.site.cfg.py").read_text()
    ptxas = pathlib.Path(re.search('fusion_ptxas = "(.*)"', site).group(1))
    if not ptxas.is_file():
        count.skipped.append("the sweep of test/gpu: no ptxas")
        return
    cmd = [sys.executable, SOURCE / "gpu" / "run.py", "--bin", a.build / "bin", "--only", "kernels,families", "--assemble", "--jobs", str(a.jobs)]
    if a.filter:
        cmd += ["--case", a.filter]
    env = os.environ | {"PATH": f"{ptxas.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    p = subprocess.run(cmd, stdout=subprocess.PIPE, text=True, errors="replace", env=env)
    print(p.stdout, end="", flush=True)
    end = re.search(r"^(\d+) passed, (\d+) failed\s*\Z", p.stdout, re.M)
    count.passed += int(end.group(1)) if end else 0
    count.failed += re.findall(r"^FAIL ([^:\n]*)", p.stdout, re.M)
    if not end or (p.returncode and not count.failed):
        count.failed.append(f"the sweep of test/gpu ended with exit code {p.returncode}")


SUITES = {"lit": run_lit, "unit": run_unit, "e2e": run_e2e, "assemble": run_assemble}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--suite", action="append", choices=SUITES)
    p.add_argument("--filter", help="regular expression on test names")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    a = p.parse_args()
    a.build = a.build.resolve()
    total = Count()
    for name in a.suite or SUITES:
        count = Count()
        print(f"== {name} tests", flush=True)
        SUITES[name](a, count)
        print(f"== {name}: {count}", flush=True)
        total.passed += count.passed
        total.failed += [f"{name}: {t}" for t in count.failed]
        total.skipped += [f"{name}: {t}" for t in count.skipped]
    for t in total.skipped:
        print(f"skipped  {t}")
    for t in total.failed:
        print(f"FAILED   {t}")
    # Continuous integration reads this line; it stays the last.
    print(f"{total.passed} passed, {len(total.failed)} failed")
    sys.exit(bool(total.failed))


if __name__ == "__main__":
    main()
