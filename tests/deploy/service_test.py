"""systemd accepts the service that the Debian package installs."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ.get("SERVAL_TEST_PROGRAM", "build/bin/serval")).resolve()
UNIT = Path(__file__).resolve().parents[2] / "deploy/systemd/serval.service"
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt


class Service(unittest.TestCase):
    def complaints(self, text):
        with tempfile.TemporaryDirectory(prefix="serval-service-") as folder:
            unit = Path(folder) / UNIT.name
            unit.write_text(text)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        return [line for line in (done.stdout + done.stderr).splitlines() if UNIT.name in line]

    def test_systemd_understands_it(self):
        text = UNIT.read_text().replace("/usr/bin/serval", str(PROGRAM))
        self.assertEqual(self.complaints(text), [])
        self.assertNotEqual(self.complaints(text.replace("Restart=on-failure", "Restart=sometimes")), [], "it reports errors")


if __name__ == "__main__":
    if shutil.which("systemd-analyze") is None:
        print("SKIPPED: no systemd on this machine")
        sys.exit(SKIPPED)
    unittest.main()
