"""Tests of tools/check_layers.py: small trees, each with one breach or none. Usage: check_layers_test.py TOOLS_DIR"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(sys.argv.pop(1) if len(sys.argv) > 1 else Path(__file__).parents[2] / "tools").resolve()
sys.path.insert(0, str(TOOLS))

import check_layers


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def breaches(self):
        return [str(breach).split(";")[0] for breach in check_layers.check(self.root)[1]]

    def test_allows_lower_layers_and_other_projects(self):
        self.write("engine/a.cc", '#include <vector>\n#include "models/b.h"\n#include "profiler/c.h"\n')
        self.write("models/b.h", '#include "nlohmann/json.hpp"\n#include "vm/base/error.h"\n')
        self.write("profiler/c.h", '#include "scheduler/d.h"\n')
        self.assertEqual(self.breaches(), [])

    def test_finds_an_include_of_a_higher_layer_and_its_line(self):
        self.write("vm/a.h", '#pragma once\n\n  #  include "scheduler/b.h"\n')
        self.assertEqual(self.breaches(), ["vm/a.h:3: vm includes scheduler/b.h of scheduler"])

    def test_finds_angle_brackets_and_device_code(self):
        self.write("instructions/op/device.cuh", "#include <models/b.h>\n")
        self.assertEqual(
            self.breaches(), ["instructions/op/device.cuh:1: instructions includes models/b.h of models"]
        )

    def test_sees_through_relative_paths(self):
        self.write("models/b.h", "")
        self.write("vm/host/a.cc", '#include "../../models/b.h"\n')
        self.assertEqual(self.breaches(), ["vm/host/a.cc:1: vm includes ../../models/b.h of models"])

    def test_keeps_the_profiler_out_of_all_layers_but_the_engine(self):
        self.write("models/a.cc", '#include "profiler/c.h"\n')
        self.assertEqual(self.breaches(), ["models/a.cc:1: models includes profiler/c.h of profiler"])

    def test_keeps_models_out_of_the_profiler(self):
        self.write("profiler/a.cc", '#include "models/b.h"\n')
        self.assertEqual(self.breaches(), ["profiler/a.cc:1: profiler includes models/b.h of models"])

    def test_knows_public_headers_as_the_engine(self):
        self.write("scheduler/a.cc", '#include "serval/engine.h"\n')
        self.assertEqual(self.breaches(), ["scheduler/a.cc:1: scheduler includes serval/engine.h of engine"])

    def test_lets_public_headers_include_only_what_is_installed(self):
        self.write("engine/include/serval/engine.h", '#include "serval/error.h"\n#include "vm/dtype.h"\n')
        self.assertEqual(
            self.breaches(),
            ["engine/include/serval/engine.h:2: a public header includes vm/dtype.h, which is not installed"],
        )

    def test_keeps_a_family_of_models_in_its_folder(self):
        self.write("models/llama/config.h", "")
        self.write("models/llama/graph.cc", '#include "models/llama/config.h"\n')
        self.write("models/architectures.cc", '#include "models/llama/config.h"\n')
        self.assertEqual(self.breaches(), [])
        self.write("models/presets.cc", '#include "llama/config.h"\n')
        self.write("engine/a.cc", '#include "models/llama/config.h"\n')
        self.assertEqual(
            self.breaches(),
            [
                "engine/a.cc:1: models/llama/config.h is private to its folder",
                "models/presets.cc:1: models/llama/config.h is private to its folder",
            ],
        )

    def test_keeps_the_command_line_out_of_the_engine(self):
        self.write("engine/cli/main.cc", '#include "engine/cli/flags/flags.h"\n')
        self.write("engine/runtime/a.cc", '#include "engine/cli/flags/flags.h"\n')
        self.assertEqual(
            self.breaches(), ["engine/runtime/a.cc:1: engine/cli/flags/flags.h is private to its folder"]
        )

    def test_lets_a_room_include_only_the_rooms_it_is_built_on(self):
        self.write("profiler/sim/a.cc", '#include "profiler/sim/a.h"\n#include "profiler/trace/b.h"\n')
        self.write("vm/layout/a.h", '#include "vm/machine.h"\n')
        self.assertEqual(self.breaches(), [])
        self.write("profiler/sim/b.cc", '#include "profiler/report/c.h"\n')
        self.write("vm/base/a.h", '#include "vm/program.h"\n')
        self.assertEqual(
            self.breaches(),
            [
                "profiler/sim/b.cc:1: profiler/sim includes profiler/report/c.h",
                "vm/base/a.h:1: vm/base includes vm/program.h",
            ],
        )

    def test_keeps_the_code_of_an_architecture_in_its_folders(self):
        self.write("vm/device/sm90/roles.cuh", '#include "vm/ptx/sm90/wgmma.cuh"\n')
        self.write("vm/device/architecture.cuh", '#include "vm/device/sm90/roles.cuh"\n')
        self.write("instructions/sm90/kernel.cuh", '#include "vm/device/sm90/roles.cuh"\n')
        self.write("instructions/sample/device.cuh", '#include "vm/device/architecture.cuh"\n')
        self.assertEqual(self.breaches(), [])
        self.write("instructions/embed/device.cuh", '\n#include "vm/device/sm90/roles.cuh"\n')
        self.assertEqual(
            self.breaches(),
            ["instructions/embed/device.cuh:2: vm/device/sm90/roles.cuh is code of one architecture"],
        )

    def test_finds_ptx_that_only_one_architecture_has(self):
        self.write("vm/ptx/sm90/wgmma.cuh", 'asm("wgmma.fence.sync.aligned;");\n')
        self.write("vm/ptx/mma.cuh", '// wgmma is elsewhere\nasm("mma.sync.aligned.m16n8k16 …");\n')
        self.assertEqual(self.breaches(), [])
        self.write("vm/ptx/copy.cuh", 'asm(\n    "cp.async.bulk.commit_group;");\n')
        self.assertEqual(self.breaches(), ["vm/ptx/copy.cuh:2: cp.async.bulk is PTX of one architecture"])

    def test_refuses_includes_from_tests(self):
        self.write("engine/a.cc", '#include "tests/support/b.h"\n')
        self.assertEqual(self.breaches(), ["engine/a.cc:1: engine includes tests/support/b.h of tests"])

    def test_skips_comments_and_keeps_the_line_numbers(self):
        self.write("vm/a.h", '/*\n#include "models/b.h"\n*/\n// #include "models/b.h"\n#include "engine/c.h"\n')
        self.assertEqual(self.breaches(), ["vm/a.h:5: vm includes engine/c.h of engine"])

    def test_exit_code_says_whether_there_is_a_breach(self):
        def run():
            return subprocess.run(
                [sys.executable, TOOLS / "check_layers.py", self.root], capture_output=True, text=True
            )

        self.assertEqual(run().returncode, 2)  # a root without layers must not count as clean
        self.write("vm/a.h", "#include <vector>\n")
        self.assertEqual(run().returncode, 0)
        self.write("vm/a.h", '#include "vm/b.h"\n#include "engine/c.h"\n')
        result = run()
        self.assertEqual(result.returncode, 1)
        self.assertIn("vm/a.h:2:", result.stdout)


if __name__ == "__main__":
    unittest.main()
