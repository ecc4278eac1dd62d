"""The Debian package: the installed program works, and purging the package removes all its files.

dpkg installs it below a temporary folder, so that the machine's packages do not change."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("SERVAL_TEST_BUILD", "build"))
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
TOOLS = ("cpack", "dpkg", "dpkg-shlibdeps")
SERVICE = "usr/lib/systemd/system/serval.service"


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="serval-package-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder)
        (cls.package,) = cls.folder.glob("serval_*.deb")

    def setUp(self):
        self.root = self.folder / "root"
        for directory in ("info", "updates", "triggers"):
            (self.root / "var/lib/dpkg" / directory).mkdir(parents=True)
        for file in ("status", "available"):
            (self.root / "var/lib/dpkg" / file).touch()
        self.addCleanup(shutil.rmtree, self.root)

    def dpkg(self, *arguments):
        forced = ["--force-not-root", "--force-depends", "--force-script-chrootless", "--force-bad-path"]
        return run("dpkg", f"--root={self.root}", "--log=/dev/null", *forced, *arguments)

    def files(self):
        below = (path.relative_to(self.root) for path in self.root.rglob("*") if not path.is_dir())
        return {str(path) for path in below if not path.is_relative_to("var/lib/dpkg")}

    def test_it_installs_runs_and_goes_without_a_trace(self):
        self.dpkg("--install", str(self.package))
        files = self.files()
        for file in ("usr/bin/serval", SERVICE, "etc/serval/serve.env", "usr/share/serval/serval-stories/config.json"):
            self.assertIn(file, files)
        self.assertFalse([file for file in files if file.endswith((".h", ".a", ".cmake"))], "it is no library")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SERVAL_")}
        program = self.root / "usr/bin/serval"
        text = run(program, "generate", "-p", "Once", "-n", "3", "--backend", "host", env=kept)
        self.assertTrue(text.startswith("Once"))
        self.dpkg("--remove", "serval")
        self.assertEqual(self.files(), {"etc/serval/serve.env"}, "the administrator's configuration stays")
        self.dpkg("--purge", "serval")
        self.assertEqual(self.files(), set())

    def test_it_names_the_libraries_that_it_needs(self):
        depends = run("dpkg-deb", "--field", self.package, "Depends")
        for library in ("libc6", "libpcre2-8-0", "zlib1g"):
            self.assertIn(library, depends)


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"SKIPPED: not on this machine: {', '.join(missing)}")
        sys.exit(SKIPPED)
    unittest.main()
