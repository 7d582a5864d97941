"""lit configuration of the FileCheck tests.

    lit -v build/dev/test                  every test
    lit -v build/dev/test --filter Raise   those of a folder
    lit -v test/Raise/rms-norm.mlir        one file, with the tools of build/dev

Substitutions: %python, %bin (the tools), %ptxas (with feature `ptxas`), %source_root; tools are found by name. REQUIRES: fusion-lsp-server and
the like name a tool that the build has.
"""
import os
import pathlib

import lit.formats

SOURCE = pathlib.Path(__file__).resolve().parent
TOOLS = ("fusion-opt", "fusion-compile", "fusion-run", "fusion-lsp-server", "fusion-reduce")


def setting(name, default):
    """A value of lit.site.cfg.py, or its default when lit was given a file of the source folder."""
    value = getattr(config, name, "")
    return default if not value or value.endswith("-NOTFOUND") else value


build = pathlib.Path(setting("fusion_build_dir", str(SOURCE.parent / "build/dev")))
llvm_bin = setting("fusion_llvm_bin", "/usr/lib/llvm-22/bin")
python = setting("fusion_python", "python3")
ptxas = setting("fusion_ptxas", "")

config.name = "fusion"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "e2e"]
config.test_source_root = str(SOURCE)
config.test_exec_root = str(build / "test")

config.environment["PATH"] = os.pathsep.join([str(build / "bin"), llvm_bin, os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = str(SOURCE.parent / "python")
config.environment["LC_ALL"] = "C.UTF-8"

config.substitutions += [("%python", python), ("%source_root", str(SOURCE.parent)), ("%bin", str(build / "bin"))]
config.available_features.update(t for t in TOOLS if (build / "bin" / t).exists())
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("gpu")
