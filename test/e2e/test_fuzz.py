"""Each libFuzzer program for half a minute, from the same seed. An hour with coverage and sanitizers: test/fuzz/CMakeLists.txt."""
import concurrent.futures
import os
import pathlib
import subprocess
import tempfile
import unittest

from fusion import testing

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 30
# Program: (longest input, folders to start from).
PROGRAMS = {"FuzzArtifact": (65536, []), "FuzzNpy": (512, []), "FuzzOnnx": (1 << 20, [ROOT / "test/e2e/exports"]),
            "FuzzMlir": (1 << 15, [ROOT / "test/Raise", ROOT / "test/Dialect", ROOT / "test/Fuse"])}


def run(program):
    longest, folders = PROGRAMS[program]
    binary = testing.tools.bin.parent / "fuzz" / program
    with tempfile.TemporaryDirectory() as tmp:
        p = subprocess.run([binary, f"-max_total_time={SECONDS}", "-seed=1", f"-max_len={longest}", "-timeout=20", "-rss_limit_mb=4096",
                            f"-artifact_prefix={tmp}/", tmp, *folders], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        return p.returncode, p.stderr


class FuzzTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (testing.tools.bin.parent / "fuzz" / "FuzzNpy").exists():
            raise unittest.SkipTest("this clang has no libFuzzer")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cls.results = dict(zip(PROGRAMS, pool.map(run, PROGRAMS)))

    def check(self, program):
        code, text = self.results[program]
        self.assertEqual(code, 0, text[-3000:])
        self.assertRegex(text, r"Done \d+ runs")


for program in PROGRAMS:
    setattr(FuzzTest, f"test_{program}", lambda self, program=program: self.check(program))
