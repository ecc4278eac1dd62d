"""README, CONTRIBUTING and docs/: links, names of files and flags, and commands are valid."""

import fnmatch
import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ["SERVAL_TEST_PROGRAM"]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("assets/*/*.md")])

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# The pages' example instruction, whose files do not exist. Other files of the reader are in none of our folders.
READERS = "scale_query"
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build"))}


def read(page):
    return page.read_text(encoding="utf-8")


def prose(page):
    return FENCED.sub("", read(page))


def spans(page):
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors(page):
    """Returns GitHub's anchors of the headings: lower case, no punctuation, hyphens for spaces."""
    titles = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


class Pages(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in links(page):
                if re.match(r"[a-z]+://", target):
                    continue
                path, _, anchor = target.partition("#")
                linked = (page.parent / path).resolve() if path else page
                with self.subTest(page=page.name, target=target):
                    self.assertTrue(linked.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(linked))

    def test_an_index_lists_every_page_of_its_folder(self):
        for index in ROOT.glob("docs/**/README.md"):
            listed = {(index.parent / target.partition("#")[0]).resolve() for target in links(index)}
            for page in index.parent.glob("*.md"):
                with self.subTest(index=index.relative_to(ROOT), page=page.name):
                    self.assertIn(page, listed | {index})

    def test_files_that_are_named_exist(self):
        for page in PAGES:
            if page.parent.name == "notes":  # notes describe the repository at their date
                continue
            for span in spans(page):
                if not re.fullmatch(r"\w+(/[\w.*-]+)+/?", span) or span.split("/")[0] not in FOLDERS:
                    continue
                if READERS in span:
                    continue
                with self.subTest(page=page.name, file=span):
                    self.assertTrue(any(ROOT.glob(span.rstrip("/"))) or any(ROOT.glob(span + ".*")))

    def test_make_targets_exist(self):
        targets = set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.MULTILINE))
        for page in PAGES:
            for span in [*spans(page), *re.findall(r"^    (make .+)$", prose(page), re.MULTILINE)]:
                named = re.match(r"make ([a-z]+)\b", span)
                if named:
                    with self.subTest(page=page.name, command=span):
                        self.assertIn(named[1], targets)


class Architecture(unittest.TestCase):
    """docs/add_an_architecture.md lists what a port to another GPU writes."""

    named = spans(ROOT / "docs" / "add_an_architecture.md")

    def test_lists_every_file_of_hoppers_own(self):
        files = [path for layer in ("vm", "instructions") for path in (ROOT / layer).rglob("sm90/**/*") if path.is_file()]
        self.assertTrue(files)
        for file in files:
            with self.subTest(file=file.relative_to(ROOT)):
                self.assertIn(str(file.relative_to(ROOT)), self.named)

    def test_names_tests_that_exist(self):
        tests = [name for name in self.named if name.startswith("gpu_")]
        self.assertTrue(tests)
        for name in tests:
            with self.subTest(test=name):
                self.assertTrue(any(ROOT.glob(f"tests/device/{name.removeprefix('gpu_')}.c[cu]")))


class Readme(unittest.TestCase):
    def test_links_to_few_pages(self):
        self.assertLessEqual(len(links(ROOT / "README.md")), 8)

    def test_commands_are_understood(self):
        commands = re.findall(r"^ *(?:build/bin/serval) ([^|#\n]+)", read(ROOT / "README.md"), re.MULTILINE)
        self.assertTrue(commands)
        for command in commands:
            name, *words = command.split()
            help_text = subprocess.run([PROGRAM, name, "--help"], capture_output=True, text=True, check=True).stdout
            for flag in words:
                if re.match(r"--?[a-z]", flag):
                    with self.subTest(command=command, flag=flag):
                        self.assertRegex(help_text, rf"(?<![\w-]){flag}(?![\w-])")


@unittest.skipUnless("SERVAL_TEST_BUILD" in os.environ, "needs the build folder, to ask for the tests' names")
class Verification(unittest.TestCase):
    """docs/verification.md names tests as ctest does, with or without the executable's name, and may use *."""

    @classmethod
    def setUpClass(cls):
        listing = subprocess.run(
            ["ctest", "--test-dir", os.environ["SERVAL_TEST_BUILD"], "-N"], capture_output=True, text=True, check=True
        ).stdout
        cls.tests = re.findall(r"Test +#\d+: (\S+)", listing)
        cls.groups = {test.split(".")[0] for test in cls.tests if "." in test}

    def matching(self, span):
        """Returns the tests that match a name on a page."""
        return {test for pattern in (span, f"*.{span}", f"*/{span}/*") for test in fnmatch.filter(self.tests, pattern)}

    def named(self, page):
        return [
            span
            for span in spans(ROOT / "docs" / page)
            if re.fullmatch(r"[A-Z]\w+\.[A-Z*][\w*]*", span) or ("." in span and span.split(".")[0] in self.groups)
        ]

    def test_tests_that_are_named_exist(self):
        for page in ("verification.md", "validator.md", "oracle.md"):
            for span in self.named(page):
                with self.subTest(page=page, test=span):
                    self.assertTrue(self.matching(span))

    def test_every_group_of_tests_proves_a_promise(self):
        shown = {test.split(".")[0] for span in self.named("verification.md") for test in self.matching(span)}
        self.assertTrue(shown)
        self.assertEqual(sorted(self.groups - shown), [])


if __name__ == "__main__":
    unittest.main()
