"""Tests of tools/check_functions.py: which text it recognises as functions, and their lengths."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import check_functions


def found(source):
    return [(f.line, f.lines) for f in check_functions.functions("a.cc", source)]


class CheckFunctions(unittest.TestCase):
    def test_counts_from_brace_to_brace(self):
        self.assertEqual(found("int f() {\n  return 1;\n}\nint g() { return 2; }\n"), [(1, 3), (4, 1)])

    def test_finds_functions_in_namespaces_and_classes(self):
        source = "namespace a {\nclass B final : public C {\n public:\n  int f() const override {\n  }\n};\n}\n"
        self.assertEqual(found(source), [(4, 2)])

    def test_a_block_or_a_lambda_is_a_part_of_its_function(self):
        self.assertEqual(found("void f() {\n  if (a) {\n  }\n  const auto g = [] {\n  };\n}\n"), [(1, 6)])

    def test_a_constructor_begins_behind_its_members(self):
        self.assertEqual(found("A::A(int b) : b_{b}, c_(b) {\n\n}\n"), [(1, 3)])

    def test_a_variable_is_no_function(self):
        self.assertEqual(found("constexpr int kTable[] = {\n  f(1),\n};\nstruct B {\n  int c{1};\n};\nenum class D { kE };\n"), [])

    def test_templates_operators_tests_and_kernels_are_functions(self):
        for head in (
            "template <typename T> T f(T a)",
            "bool operator==(const A& a, const A& b)",
            "TEST(Suite, Name)",
            "__global__ void __launch_bounds__(128) kernel(const Args args)",
            "auto f() -> std::vector<int>",
            'extern "C" int f(const char* text)',
        ):
            self.assertEqual(found(head + " {\n}\n"), [(1, 2)], msg=head)

    def test_text_and_comments_are_no_code(self):
        source = "/* { */ // {\n#define A {\nint f() {\n  g(\"}\", '}', R\"x(}\n)x\");\n}\n"
        self.assertEqual(found(source), [(3, 4)])

    def test_a_tree_with_a_long_function_fails_and_names_it(self):
        with tempfile.TemporaryDirectory() as root:
            file = Path(root) / "vm/a.cc"
            file.parent.mkdir()
            for lines, code in ((check_functions.LIMITS["shipped"], 0), (check_functions.LIMITS["shipped"] + 1, 1)):
                file.write_text("\nvoid f() {" + "\n" * (lines - 1) + "}\n")
                done = subprocess.run([sys.executable, "-B", TOOLS / "check_functions.py", root], capture_output=True, text=True)
                self.assertEqual(done.returncode, code, msg=done.stdout)
            self.assertIn(f"vm/a.cc:2: a function of {lines} lines", done.stdout)


if __name__ == "__main__":
    unittest.main()
