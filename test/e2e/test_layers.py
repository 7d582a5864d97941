"""The rule between libraries: a phase links no other phase, the runtime no LLVM; the configuration fails else."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from fusion.testing import tools

CMAKE_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "cmake"


def find_cmake():
    beside = pathlib.Path(sys.executable).parent / "cmake"
    return str(beside) if beside.exists() else shutil.which("cmake")


@unittest.skipUnless(find_cmake(), "no cmake")
class LayersTest(unittest.TestCase):
    def configure(self, text):
        """Of a project with the rule of this one; text between its inclusion and the check."""
        with tempfile.TemporaryDirectory() as tmp:
            (pathlib.Path(tmp) / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.20)\nproject(layers LANGUAGES CXX)\n"
                f'list(PREPEND CMAKE_MODULE_PATH "{CMAKE_FOLDER}")\ninclude(FusionTargets)\n{text}\nfusion_check_layers()\n')
            (pathlib.Path(tmp) / "a.cpp").write_text("int a;\n")
            p = subprocess.run([find_cmake(), "-S", tmp, "-B", f"{tmp}/build"], capture_output=True, text=True)
            return p.returncode, " ".join(p.stderr.split())

    def test_phases_use_what_lies_below(self):
        code, err = self.configure("add_fusion_library(Below LAYER below SOURCES a.cpp)\nadd_fusion_library(Fuse LAYER phase SOURCES a.cpp LINK Below)")
        self.assertEqual(code, 0, err)

    def test_a_phase_does_not_link_a_phase(self):
        code, err = self.configure("add_fusion_library(Raise LAYER phase SOURCES a.cpp)\nadd_fusion_library(Fuse LAYER phase SOURCES a.cpp LINK Raise)")
        self.assertNotEqual(code, 0)
        self.assertIn("phase library Fuse must not link phase library Raise", err)

    def test_the_runtime_does_not_link_llvm(self):
        code, err = self.configure("add_fusion_library(Below LAYER below SOURCES a.cpp LINK LLVM)\nadd_fusion_library(Runtime LAYER runtime SOURCES a.cpp LINK Below)")
        self.assertNotEqual(code, 0)
        self.assertIn("Runtime is part of the runtime and must not link", err)


class RuntimeTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("ldd"), "no ldd")
    def test_fusion_run_loads_no_llvm(self):
        libraries = subprocess.run(["ldd", str(tools.bin / "fusion-run")], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(libraries, "LLVM|MLIR|libcuda")
