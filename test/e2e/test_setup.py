"""tools/setup where packages are missing: it says which source has them, and ends before it changes anything."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "tools/setup"
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n'


class SetupTest(unittest.TestCase):
    def run_setup(self, system, programs):
        """On a system of these programs alone, beside the shell's own."""
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            (tmp / "tools").mkdir()
            (tmp / "bin").mkdir()
            (tmp / "os-release").write_text(system)
            (tmp / "tools/setup").write_text(SETUP.read_text().replace("/etc/os-release", str(tmp / "os-release")))
            for name in ("bash", "dirname", "grep", "sed", "id"):
                os.symlink(subprocess.check_output(["which", name], text=True).strip(), tmp / "bin" / name)
            for name, text in {"sudo": 'exec "$@"', **programs}.items():
                (tmp / "bin" / name).write_text("#!/bin/bash\n" + text + "\n")
                (tmp / "bin" / name).chmod(0o755)
            r = subprocess.run(["bash", str(tmp / "tools/setup")], env={"PATH": str(tmp / "bin")}, capture_output=True, text=True, timeout=60)
            self.assertFalse((tmp / "build").exists())
            return r

    def test_the_source_that_is_missing(self):
        apt = {"dpkg-query": "exit 1", "apt-get": '[ "$1" = update ]',
               "apt-cache": 'case $2 in *22*) echo "  Candidate: (none)";; *) printf "  Installed: (none)\\n  Candidate: 1.0\\n";; esac'}
        r = self.run_setup(DEBIAN, apt)
        self.assertEqual(r.returncode, 1)
        self.assertIn("setup: error: apt knows no clang-22 ", r.stderr)
        self.assertIn("deb http://deb.debian.org/debian-security bookworm-security main", r.stderr)
        self.assertNotIn("ninja-build", r.stderr)
        r = self.run_setup(UBUNTU, apt)
        self.assertEqual(r.returncode, 1)
        self.assertIn("setup: error: this is Ubuntu 24.04 LTS, which has no clang-22 ", r.stderr)
        self.assertIn("debian:12", r.stderr)

    def test_a_system_without_apt(self):
        r = self.run_setup('PRETTY_NAME="Fedora Linux 40"\nID=fedora\nVERSION_ID=40\n', {})
        self.assertEqual(r.returncode, 1)
        self.assertIn("setup: error: this is Fedora Linux 40, which has no clang-22 ", r.stderr)

    def test_packages_that_are_there_are_installed(self):
        apt = {"dpkg-query": "exit 1", "apt-get": '[ "$1" = update ] || { echo "apt-get $*"; exit 9; }', "apt-cache": 'printf "  Installed: (none)\\n  Candidate: 1.0\\n"'}
        r = self.run_setup(DEBIAN, apt)
        self.assertEqual(r.returncode, 9, r.stderr)
        self.assertIn("apt-get install -y -qq --no-install-recommends clang-22", r.stdout)


if __name__ == "__main__":
    unittest.main()
