"""Uses pages of the viewer in headless Chromium as a reader would: mouse, keys, both themes, one trace and two.

Every test ends with a look at what the page logged and asked for: no error, and nothing but the page itself.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import browser
from browser import Browser

MAKE_PAGES = os.environ.get("SERVAL_VIEWER_PAGES", "build/bin/viewer_pages")
SKIPPED = 77  # as CMakeLists.txt says
# wave_trace.h: five rounds of 250 + 600 + 3 × 40 + 100 ns, the last one on one SM only and so without the 120 ns.
SLOW_TOKEN = "5.230 µs"
FAST_TOKEN = "4.230 µs"
CAPTIONS = ["What would save most", "Critical path by op and state", "Where each op's time goes",
            "Bubbles of each SM, by what its consumers waited for"]
FIGURES = ["Bandwidth over time", "Imbalance"]
NANOSECONDS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, of text


def nanoseconds(text):
    number, unit = text.replace("−", "-").split()
    return float(number) * NANOSECONDS[unit]


def luminance(colour):
    channels = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Case(unittest.TestCase):
    page = "one.html"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="serval-viewer-")
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([MAKE_PAGES, cls.folder.name], check=True)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.requests.clear()
        self.browser.prefer(dark=False)
        self.address = f"{self.folder.name}/{self.page}"
        self.browser.open(self.address)
        self.addCleanup(self.check_quiet)

    def check_quiet(self):
        self.assertEqual(self.browser.problems, [])
        self.assertEqual(set(self.browser.requests), {f"file://{self.address}"})

    # --- what the page says

    def view(self):
        """Begin and end of what is in view, ns."""
        begin, end = re.match(r"View (\S+ \S+) to (\S+ \S+) \(", self.browser.text("#status-window")).groups()
        return nanoseconds(begin), nanoseconds(end)

    def span(self):
        begin, end = self.view()
        return end - begin

    def selected(self):
        """What the live region said last: a slice in words."""
        return self.browser.evaluate("document.querySelector('#announce').textContent")

    def pressed(self, group):
        return self.browser.evaluate(f"[...document.querySelectorAll('#{group} [aria-pressed=true]')].map(b => b.textContent)")

    def find(self, words, chart=0):
        """A point of a chart, in CSS pixels, at which the tip has all the words."""
        point = self.browser.evaluate(f"""(() => {{
            const chart = document.querySelectorAll('.chart')[{chart}], tip = document.querySelector('#tip');
            const {{ left, top, right, bottom }} = chart.getBoundingClientRect();
            for (let y = top + 60; y < bottom - 80; y += 5)
              for (let x = left + 130; x < right - 20; x += 25) {{
                chart.dispatchEvent(new PointerEvent('pointermove', {{ clientX: x, clientY: y }}));
                if (!tip.hidden && {list(words)}.every(word => tip.innerText.includes(word))) return [x, y];
              }}
            return null;
        }})()""")
        self.assertIsNotNone(point, f"no slice with {words}")
        return point

    def ink(self, layer, colour):
        """Pixels of a colour on a canvas of the first chart: 0, what is under; 1, what is over."""
        return self.browser.evaluate(f"""(() => {{
            const canvas = document.querySelectorAll('.chart canvas')[{layer}];
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
            copy.drawImage(canvas, 0, 0);
            const {{ data }} = copy.getImageData(0, 0, canvas.width, canvas.height);
            const [r, g, b] = {list(colour)};
            let count = 0;
            for (let i = 0; i < data.length; i += 4)
              if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) ++count;
            return count;
        }})()""")

    def variable(self, name):
        text = self.browser.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
        return tuple(int(text[i:i + 2], 16) for i in (1, 3, 5))

    def swatch(self, name):
        text = self.browser.evaluate(
            f"[...document.querySelectorAll('#legend button')].find(b => b.textContent === '{name}').firstChild.style.background")
        return tuple(map(int, re.findall(r"\d+", text)))


class Opening(Case):
    def test_opens_on_the_slowest_token_that_fills_the_window_with_the_critical_path_on(self):
        self.assertEqual(self.browser.evaluate("document.querySelector('#passes select').selectedOptions[0].text"),
                         f"2 of 3: {SLOW_TOKEN}, slowest")
        begin, end = self.view()
        self.assertAlmostEqual(begin, -0.02 * 5230, delta=1)
        self.assertAlmostEqual(end, 1.02 * 5230, delta=5)
        self.assertEqual(self.pressed("switches"), ["Critical path", "Figures", "Panel"])
        self.assertGreater(self.ink(1, self.variable("path")), 1000)

    def test_title_and_facts_say_what_ran(self):
        self.assertEqual(self.browser.evaluate("document.title"), "wave – Serval profile")
        facts = self.browser.text("#facts")
        for fact in ("backend sim", "machine wave, 4 SMs", "model wave", "policy none"):
            self.assertIn(fact, facts)

    def test_every_table_and_figure_of_the_report_is_there(self):
        captions = self.browser.evaluate("[...document.querySelectorAll('#panel caption')].map(c => c.firstChild.textContent)")
        self.assertEqual([c for c in captions if c != "Stragglers"], CAPTIONS)
        figures = self.browser.evaluate("[...document.querySelectorAll('#panel h4')].map(h => h.textContent)")
        self.assertEqual(figures, FIGURES)
        self.assertIn(f"{FAST_TOKEN} a token (median of 3)", self.browser.text("#panel .summary"))
        self.assertIn("one counter round a layer fewer", self.browser.text("#panel"))

    def test_every_control_has_a_name(self):
        nodes = self.browser.page("Accessibility.getFullAXTree")["nodes"]
        controls = {"button", "combobox", "searchbox", "textbox", "tab", "application", "group", "toolbar", "tablist",
                    "tabpanel", "image", "complementary"}
        seen = set()
        for node in nodes:
            role = node.get("role", {}).get("value")
            if role in controls and not node.get("ignored"):
                seen.add(role)
                self.assertTrue(node["name"]["value"], msg=node)
        self.assertLessEqual({"button", "combobox", "searchbox", "tab", "application", "image"}, seen)


class Moving(Case):
    def middle(self):
        x, y, width, height = self.browser.box(".chart")
        return x + width / 2, y + height / 2

    def test_ctrl_and_wheel_zoom_about_the_pointer(self):
        at = self.middle()
        self.browser.move(*at)
        pointer = self.browser.text("#status-cursor")
        before = self.span()
        self.browser.wheel(*at, -400, "ctrl")
        self.assertLess(self.span(), before / 2)
        self.browser.move(*at)
        self.assertAlmostEqual(nanoseconds(self.browser.text("#status-cursor").split(" ", 1)[1]),
                               nanoseconds(pointer.split(" ", 1)[1]), delta=5)
        self.browser.wheel(*at, 4000, "ctrl")
        self.assertGreater(self.span(), before)

    def test_a_drag_pans_by_what_the_pointer_moved(self):
        x, y = self.middle()
        self.browser.wheel(x, y, -400, "ctrl")
        begin, end = self.view()
        width = self.browser.box(".chart")[2] - 124 - 8
        self.browser.drag((x, y), (x - 100, y))
        self.assertAlmostEqual(self.view()[0], begin + (end - begin) * 100 / width, delta=3)
        self.assertAlmostEqual(self.span(), end - begin, delta=2)

    def test_a_click_in_the_strip_goes_there(self):
        self.browser.wheel(*self.middle(), -600, "ctrl")
        x, y, width, _ = self.browser.box(".chart")
        self.browser.click(x + width - 12, y + 15)
        self.assertGreater(self.view()[0], 5230)

    def test_w_and_s_zoom_a_and_d_pan_and_home_shows_the_token(self):
        whole = self.view()
        self.browser.key("w")
        near = self.view()
        self.assertAlmostEqual(near[1] - near[0], (whole[1] - whole[0]) / 1.6, delta=5)
        self.browser.key("d")
        self.assertGreater(self.view()[0], near[0])
        self.browser.key("a")
        self.assertAlmostEqual(self.view()[0], near[0], delta=2)
        self.browser.key("s")
        self.assertAlmostEqual(self.span(), whole[1] - whole[0], delta=5)
        self.browser.key("w")
        self.browser.key("Home")
        self.assertEqual(self.view(), whole)

    def test_brackets_go_from_token_to_token_and_nine_shows_them_all(self):
        self.browser.key("[")
        self.assertIn("1 of 3", self.browser.evaluate("document.querySelector('#passes select').selectedOptions[0].text"))
        self.assertAlmostEqual(self.view()[1], 1.02 * 4230, delta=5)
        self.browser.key("9")
        self.assertGreater(self.span(), 4230 + 5230 + 4230)

    def test_zooming_ends_before_nothing_can_be_told_apart(self):
        for _ in range(20):
            self.browser.wheel(*self.middle(), -2000, "ctrl")
        self.assertAlmostEqual(self.span(), 20, delta=1)

    def test_rows_scroll_when_they_do_not_fit(self):
        self.addCleanup(self.browser.resize, 1600, 1000)
        self.browser.resize(1600, 600)
        for key in "gllllllllll":
            self.browser.key(key)
        first = self.find(["SM 0"])
        with self.assertRaises(AssertionError):
            self.find(["SM 3"])
        self.browser.wheel(*first, 3000)
        self.find(["SM 3"])
        with self.assertRaises(AssertionError):
            self.find(["SM 0"])

    def test_motion_is_smooth_unless_the_reader_wants_less_of_it(self):
        self.browser.prefer(calm=False)
        self.browser.open(self.address)
        whole = self.span()
        self.browser.key("w")
        self.browser.wait_for("(text => !text.includes('5.439'))(document.querySelector('#status-window').textContent)")
        self.browser.evaluate("new Promise(done => setTimeout(done, 400))")
        self.assertAlmostEqual(self.span(), whole / 1.6, delta=5)


class Selecting(Case):
    def panel(self):
        return self.browser.text("#panel")

    def test_a_click_shows_disassembly_operands_timings_and_who_waits(self):
        self.browser.click(*self.find(["down, layer 0", "consumer: compute", "SM 2"]))
        panel = self.panel()
        self.assertEqual(self.browser.text("#panel h3"), "down, layer 0")
        self.assertIn("SM 2, instruction 1 of its queue", panel)
        self.assertEqual(self.browser.text(".disassembly"),
                         "down layer=0 input=x1 first_unit=2 num_units=1\n  wait c1>=4 (input)\n  signal c2+1")
        operands = self.browser.evaluate(
            "[...document.querySelectorAll('#panel table:last-of-type')].at(-1).innerText.split('\\n').map(r => r.split('\\t').join('='))")
        self.assertEqual(operands[-3:], ["input=x1", "first_unit=2", "num_units=1"])
        # Round 1 begins at 1,070 ns; SM 2 computes for 600 + 2 × 40 ns from 250 ns on.
        self.assertRegex(panel, r"consumer\s+compute\s+1\.32\s+0\.68")
        self.assertRegex(panel, r"14 events")
        waited = [line for line in self.browser.text("#waited-for").split("\n") if line]
        self.assertEqual(waited[1], "c1 ≥ 4 for input")
        self.assertEqual(waited[2], "gate_up, layer 0 on SM 1 last, at 1.070 µs")
        self.assertEqual(len([line for line in waited if "gate_up" in line]), 4)
        self.assertIn("gate_up, layer 1 on SM 3 ready at 2.240 µs", self.browser.text("#waited-by"))

    def test_a_link_in_the_panel_selects_the_producer(self):
        self.browser.click(*self.find(["down, layer 0", "consumer: compute", "SM 2"]))
        self.browser.press("#waited-for .link")
        self.assertEqual(self.selected(), "gate_up, layer 0, SM 1 consumer, compute, 720 ns at 250 ns")

    def test_arrow_keys_go_along_rows_and_from_row_to_row(self):
        self.browser.click(*self.find(["gate_up, layer 0", "consumer: compute", "SM 2"]))
        self.browser.key("ArrowRight")
        self.assertIn("down, layer 0, SM 2 consumer, wait", self.selected())
        self.browser.key("ArrowLeft")
        self.browser.key("ArrowDown")
        self.assertIn("gate_up, layer 0, SM 3 consumer, compute", self.selected())
        self.browser.key("ArrowUp")
        self.assertIn("gate_up, layer 0, SM 2 consumer, compute", self.selected())

    def test_comma_and_full_stop_go_along_the_critical_path(self):
        path = []
        for _ in range(5):
            self.browser.key(".")
            path.append(re.match(r"(.*), SM (\d)", self.selected()).groups())
        late = [(op, "1") for op in ("gate_up, layer 0", "down, layer 0", "gate_up, layer 1", "down, layer 1")]
        self.assertEqual(path, [*late, ("advance", "0")])
        self.browser.key(",")
        self.assertIn("down, layer 1, SM 1", self.selected())

    def test_u_goes_to_what_it_waited_for_and_j_to_what_waited_for_it(self):
        self.browser.click(*self.find(["down, layer 0", "consumer: compute", "SM 2"]))
        self.browser.key("u")
        self.assertIn("gate_up, layer 0, SM 1", self.selected())
        self.browser.key("j")
        self.assertIn("down, layer 0, SM", self.selected())

    def test_f_zooms_to_the_selection_and_escape_lets_it_go(self):
        self.browser.click(*self.find(["down, layer 0", "consumer: compute", "SM 2"]))
        self.browser.key("f")
        self.assertAlmostEqual(self.span(), 680 / 0.35, delta=5)
        self.browser.key("Escape")
        self.assertIn("Click a slice", self.panel())

    def test_without_the_mouse_an_arrow_key_selects_what_is_in_the_middle(self):
        self.browser.key("ArrowDown")
        self.assertRegex(self.selected(), r", SM \d ")

    def test_a_shift_drag_marks_a_range_and_says_what_was_done_in_it(self):
        x, y, width, height = self.browser.box(".chart")
        self.browser.drag((x + 300, y + height / 2), (x + 500, y + height / 2), "shift")
        per_ns = (width - 124 - 8) / self.span()
        self.assertAlmostEqual(nanoseconds(self.browser.text("#status-range").split(" ", 1)[1]), 200 / per_ns, delta=5)
        states = self.browser.evaluate("[...document.querySelectorAll('#panel section.table tbody tr')].map(r => r.innerText)")
        shares = [float(re.search(r"([\d.]+) %", row)[1]) for row in states]
        self.assertAlmostEqual(sum(shares), 100, delta=0.5)
        self.browser.key("Escape")
        self.assertEqual(self.browser.text("#status-range"), "")

    def test_a_table_sorts_by_a_column_and_leads_to_the_chart(self):
        heading = "[...document.querySelectorAll('#panel th button')].find(b => b.textContent === 'longest for')"
        self.browser.evaluate(f"{heading}.click()")
        self.assertEqual(self.browser.evaluate(f"{heading}.parentElement.ariaSort"), "ascending")
        self.browser.evaluate("[...document.querySelectorAll('#panel .link')].find(l => l.textContent === '3').click()")
        self.browser.settle()
        self.assertEqual(self.pressed("grouping"), ["SM"])


class SeveralGpus(Case):
    page = "ranks.html"

    def headings(self):
        """The middles of the GPUs' headings, from top to bottom, in CSS pixels: bands of a colour of their own."""
        return self.browser.evaluate(f"""(() => {{
            const chart = document.querySelector('.chart'), canvas = chart.querySelector('canvas');
            const {{ left, top, width }} = chart.getBoundingClientRect(), ratio = canvas.width / width;
            const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
            copy.drawImage(canvas, 0, 0);
            const x = Math.round(300 * ratio), {{ data }} = copy.getImageData(x, 0, 1, canvas.height);
            const isBand = (y) => [0, 1, 2].every(c => data[4 * y + c] === {list(self.variable("sunken"))}[c]);
            const bands = [];
            for (let y = 0; y < canvas.height; ++y) {{
              if (!isBand(y)) continue;
              const first = y;
              while (isBand(y + 1)) ++y;
              bands.push([left + 300, top + (first + y) / 2 / ratio]);
            }}
            return bands;
        }})()""")

    def test_rows_stand_under_their_gpu_whether_by_role_or_by_sm(self):
        for grouping in ("role", "SM"):
            with self.subTest(grouping=grouping):
                self.assertEqual(self.pressed("grouping"), [grouping])
                (_, first), (_, second) = self.headings()
                for sm in (0, 1):
                    self.assertTrue(first < self.find(["consumer: compute", f"GPU 0 SM {sm}"])[1] < second)
                    self.assertGreater(self.find(["consumer: compute", f"GPU 1 SM {sm}"])[1], second)
                self.browser.key("g")

    def test_one_gpu_has_no_heading(self):
        self.browser.open(f"{self.folder.name}/one.html")
        self.assertEqual(self.headings(), [])
        self.browser.requests.clear()
        self.browser.open(self.address)

    def test_a_click_on_a_gpus_name_folds_its_rows(self):
        self.browser.click(*self.headings()[1])
        self.assertEqual(self.pressed("ranks"), ["GPU 0"])
        self.find(["consumer: compute", "GPU 0 SM 1"])
        self.browser.click(*self.headings()[1])
        self.assertEqual(self.pressed("ranks"), ["GPU 0", "GPU 1"])
        self.find(["consumer: compute", "GPU 1 SM 1"])

    def test_all_gpus_may_be_folded_and_what_is_selected_is_unfolded(self):
        for rank in (0, 1):
            self.browser.press(f"#ranks button:nth-of-type({rank + 1})")
        self.assertEqual(self.pressed("ranks"), [])
        self.assertGreater(self.ink(1, self.variable("path")), 100)
        self.browser.key(".")
        self.assertIn("gate_up, layer 0, GPU 0 SM 1 consumer", self.selected())
        self.assertEqual(self.pressed("ranks"), ["GPU 0"])
        self.browser.key("k")
        self.assertEqual(self.pressed("ranks"), [])

    def test_arrows_go_from_gpu_to_gpu_and_the_panel_says_so(self):
        self.browser.click(*self.find(["down, layer 0", "consumer: compute", "GPU 1 SM 0"]))
        waited = [line for line in self.browser.text("#waited-for").split("\n") if line]
        self.assertEqual(waited[2], "gate_up, layer 0 on GPU 0 SM 1 last, over the link, at 1.070 µs")
        self.assertIn("gate_up, layer 0 on GPU 1 SM 1 at ", self.browser.text("#waited-for"))
        self.browser.key("u")
        self.assertIn("gate_up, layer 0, GPU 0 SM 1", self.selected())

    def test_a_graph_of_what_each_gpu_pushes_stands_under_the_rows(self):
        tracks = self.browser.evaluate("JSON.parse(document.querySelector('[type=\"application/x-serval-trace\"]')"
                                       ".textContent.trim().split('\\n')[0]).tracks.map(track => track.name)")
        self.assertEqual(tracks[:4], ["GB/s", "busy SMs", "GPU 0 out GB/s", "GPU 1 out GB/s"])

    def test_gpu_and_sm_can_be_searched_for(self):
        for query, found in (("gpu=1 down", "4 found"), ("sm=1 down", "4 found"), ("gpu=1 sm=0 down", "2 found"), ("sm=2", "none")):
            with self.subTest(query=query):
                self.browser.key("/")
                self.browser.type(query)
                self.assertEqual(self.browser.text("#search-count"), found)
                self.browser.key("Escape")

    def test_facts_and_tables_name_the_gpus(self):
        self.assertIn("machine 2 × wave, 2 SMs each", self.browser.text("#facts"))
        links = self.browser.evaluate("[...document.querySelectorAll('#panel .link')].map(l => l.textContent)")
        self.assertLessEqual({"GPU 0 SM 0", "GPU 1 SM 1"}, set(links))
        captions = self.browser.evaluate("[...document.querySelectorAll('#panel caption')].map(c => c.firstChild.textContent)")
        self.assertIn("Exchanges between GPUs, by what pushes", captions)


class Searching(Case):
    def test_typing_counts_enter_goes_from_hit_to_hit_and_escape_ends_it(self):
        self.browser.key("/")
        self.browser.type("down layer=1")
        self.assertEqual(self.browser.text("#search-count"), "4 found")
        self.browser.key("Enter")
        self.assertEqual(self.browser.text("#search-count"), "1 of 4")
        self.assertIn("down, layer 1", self.selected())
        self.browser.key("n")
        self.browser.key("n")
        self.assertEqual(self.browser.text("#search-count"), "3 of 4")
        self.browser.key("N", "shift")
        self.assertEqual(self.browser.text("#search-count"), "2 of 4")
        self.browser.key("Escape")
        self.assertEqual(self.browser.text("#search-count"), "")

    def test_words_with_an_equals_sign_are_whole(self):
        for query, found in (("first_unit=2", "4 found"), ("first_unit=", "none"), ("sm=3 down", "2 found"), ("#0", "1 found"),
                             ("advance", "1 found"), ("nothing", "none"), ("gate_up input=x2 sm=0", "1 found")):
            with self.subTest(query=query):
                self.browser.key("/")
                self.browser.type(query)
                self.assertEqual(self.browser.text("#search-count"), found)
                self.browser.key("Escape")

    def test_what_is_not_found_is_dimmed(self):
        before = self.ink(0, self.swatch("compute"))
        self.browser.key("/")
        self.browser.type("down")
        after = self.ink(0, self.swatch("compute"))
        self.assertLess(after, 0.7 * before)
        self.assertGreater(after, 0)

    def test_letters_typed_into_the_search_are_no_commands(self):
        self.browser.key("/")
        self.browser.type("gate")
        self.assertEqual(self.pressed("grouping"), ["role"])
        self.assertEqual(self.browser.evaluate("document.querySelector('#search').value"), "gate")


class Looking(Case):
    def test_c_colours_by_state_op_and_layer(self):
        self.assertEqual(self.browser.text("#legend").split(), "fetch wait room load compute store signal".split())
        self.assertGreater(self.ink(0, self.swatch("compute")), 10000)
        self.browser.key("c")
        self.assertEqual(self.pressed("colours"), ["op"])
        self.assertEqual(self.browser.text("#legend").split(), "gate_up down advance".split())
        self.assertGreater(self.ink(0, self.swatch("down")), 10000)
        self.browser.key("c")
        self.assertEqual(self.browser.text("#legend").split("\n"), ["0", "1", "no layer"])
        self.assertGreater(self.ink(0, self.swatch("1")), 10000)
        self.browser.key("c")
        self.assertEqual(self.pressed("colours"), ["state"])

    def test_an_entry_of_the_legend_is_seen_alone(self):
        load = self.ink(0, self.swatch("load"))
        self.browser.press("#legend button:nth-child(5)")
        self.assertEqual(self.pressed("legend"), ["compute"])
        self.assertEqual(self.ink(0, self.swatch("load")), 0)
        self.browser.key("Escape")
        self.assertEqual(self.ink(0, self.swatch("load")), load)

    def test_rows_are_by_role_or_by_sm_and_roles_can_be_left_out(self):
        self.browser.key("g")
        self.assertEqual(self.pressed("grouping"), ["SM"])
        for key in "1235":
            self.browser.key(key)
        self.assertEqual(self.pressed("roles"), ["consumer"])
        self.browser.key("4")
        self.assertEqual(self.pressed("roles"), ["consumer"])  # the last one stays
        self.find(["consumer", "SM 3"])

    def test_p_takes_the_critical_path_away(self):
        self.browser.key("p")
        self.assertEqual(self.ink(1, self.variable("path")), 0)
        self.browser.key("p")
        self.assertGreater(self.ink(1, self.variable("path")), 1000)

    def test_a_pixel_that_slices_share_has_their_mean_colour(self):
        mean = self.browser.evaluate("""(() => {
            const trace = { begin: [0, 5, 10], finish: [5, 10, 30], rowBegin: [0, 3],
                            firstEndingAfter: () => 0 };
            const pixels = new Uint32Array(4).fill(0xff000000);
            paintRow(pixels, 0, 4, trace, 0, [0xff0000ff, 0xff00ff00, 0xffff0000], [], 0, 0.1);
            return [...pixels].map(p => [p & 255, p >>> 8 & 255, p >>> 16 & 255]);
        })()""")
        self.assertEqual(mean, [[127, 127, 0], [0, 0, 255], [0, 0, 255], [0, 0, 0]])

    def test_blocks_of_slices_have_the_colour_that_the_slices_have(self):
        levels = self.browser.evaluate("""(() => {
            const count = 4096, step = 100 / count;
            const trace = { begin: [], finish: [], rowBegin: [0, count], firstEndingAfter: () => 0 };
            const colours = [];
            for (let i = 0; i < count; ++i) {
              trace.begin.push(i * step);
              trace.finish.push((i + 1) * step);
              colours.push((0xff000000 | i * 2654435761 % 0x1000000) >>> 0);
            }
            const levels = kBlockSizes.map(size => new Blocks(trace, colours, size));
            return [[], levels].map(used => {
              const pixels = new Uint32Array(10).fill(0xff000000);
              paintRow(pixels, 0, 10, trace, 0, colours, used, 0, 0.1);
              return [...pixels].map(p => p & 255);
            });
        })()""")
        for one_by_one, in_blocks in zip(*levels):
            self.assertAlmostEqual(one_by_one, in_blocks, delta=25)  # a block is of one pixel, its slices of two

    def test_dark_and_light_follow_the_system_until_the_reader_chooses(self):
        light = self.variable("ground")
        self.browser.prefer(dark=True)
        self.browser.settle()
        dark = self.variable("ground")
        self.assertLess(luminance(dark), 0.05)
        self.assertGreater(luminance(light), 0.9)
        self.assertGreater(self.ink(0, dark), 10000)  # the charts, too
        self.browser.key("t")
        self.assertEqual(self.variable("ground"), light)
        self.browser.evaluate("localStorage.clear()")

    def test_text_stands_out_in_both_themes(self):
        for dark in (False, True):
            self.browser.prefer(dark=dark)
            self.browser.settle()
            for text in ("text", "quiet", "accent", "worse", "better"):
                for ground in ("ground", "raised"):
                    with self.subTest(dark=dark, text=text, ground=ground):
                        self.assertGreaterEqual(contrast(self.variable(text), self.variable(ground)), LEAST_CONTRAST)

    def test_states_can_be_told_apart_in_both_themes(self):
        for dark in (False, True):
            self.browser.prefer(dark=dark)
            self.browser.settle()
            colours = [self.swatch(name) for name in self.browser.text("#legend").split()]
            for i, one in enumerate(colours):
                for other in colours[:i]:
                    self.assertGreater(sum(abs(a - b) for a, b in zip(one, other)), 40)

    def test_a_narrow_window_has_the_panel_below(self):
        self.addCleanup(self.browser.resize, 1600, 1000)
        self.browser.resize(700, 900)
        self.browser.settle()
        _, top, _, height = self.browser.box(".chart")
        self.assertGreaterEqual(self.browser.box("#side")[1], top + height)
        self.assertGreater(self.ink(0, self.swatch("compute")), 1000)

    def test_a_screen_of_twice_the_pixels_is_drawn_with_them(self):
        self.addCleanup(self.browser.resize, 1600, 1000)
        self.browser.resize(1000, 700, 2)
        self.browser.settle()
        width = self.browser.box(".chart")[2]
        self.assertEqual(self.browser.evaluate("document.querySelector('.chart canvas').width"), 2 * width)


class Keys(Case):
    page = "two.html"

    def test_the_help_lists_every_command(self):
        self.browser.key("?")
        self.assertTrue(self.browser.evaluate("document.querySelector('#help').open"))
        listed = self.browser.evaluate("document.querySelectorAll('#help dt').length")
        commands = self.browser.evaluate("kCommands.flatMap(([, commands]) => commands).length + kMouse.length")
        self.assertEqual(listed, commands)
        self.browser.key("Escape")
        self.assertFalse(self.browser.evaluate("document.querySelector('#help').open"))

    # Keys that change nothing unless others were pressed before.
    SEARCH = [*"/down", "Enter"]
    BEFORE = {"d": ["w"], "a": ["w"], "0": ["w"], "Home": ["w"], "PageUp": [*"gllllll", "PageDown"], "f": ["0", "."],
              "[": ["]"], "i": ["r"], "r": ["i"], "n": SEARCH, "Enter": SEARCH, "N": SEARCH, "z": ["l"], "m": ["."],
              "Escape": ["."], ",": [".", "."], "u": [".", "."], "j": [".", "."], "x": ["."], "ArrowUp": [".", "."],
              "ArrowLeft": ["."], "ArrowRight": ["."], "ArrowDown": ["."], "5": [*"1234"], "l": ["h"], "z": ["h"]}

    def everything(self):
        """All that a reader could notice."""
        return self.browser.evaluate("""[
            document.body.innerText,
            document.querySelector('#announce').textContent,
            document.querySelector('#help').open,
            document.activeElement.id,
            ...[...document.querySelectorAll('[aria-pressed], [aria-selected]')].map(b => b.ariaPressed ?? b.ariaSelected),
            ...[...document.querySelectorAll('canvas')].map(c => c.toDataURL()),
        ].join()""")

    def test_every_key_of_the_help_changes_something_and_nothing_goes_wrong(self):
        keys = self.browser.evaluate("kCommands.flatMap(([, commands]) => commands.flatMap(([keys]) => keys))")
        self.assertEqual(len(keys), len(set(keys)))
        for key in keys:
            with self.subTest(key=key):
                for earlier in self.BEFORE.get(key, []):
                    self.browser.key(earlier)
                before = self.everything()
                self.browser.key(key, *(["shift"] if key in ("N", "?", "+") else []))
                self.assertTrue(self.everything() != before, msg="nothing has changed")
                self.assertEqual(self.browser.problems, [])
                self.browser.key("Escape")
        self.browser.evaluate("localStorage.clear()")

    def test_tab_reaches_every_control(self):
        wanted = self.browser.evaluate("document.querySelectorAll('.bar button:not(:disabled), .bar select, .bar input, "
                                       ".legend button, .chart, .tabs button').length")
        reached = set()
        for _ in range(200):
            self.browser.key("Tab")
            self.browser.evaluate("document.activeElement.dataset.reached = 1")
            count = self.browser.evaluate("document.querySelectorAll('.bar [data-reached], .legend [data-reached], "
                                          ".chart[data-reached], .tabs [data-reached]').length")
            reached.add(count)
        self.assertEqual(max(reached), wanted)


class Comparing(Case):
    page = "two.html"

    def test_opens_on_the_comparison_of_both_traces(self):
        self.assertEqual(self.browser.text("#title"), "before.json and after.json")
        panel = self.browser.text("#panel")
        # Five rounds, each 100 ns shorter.
        self.assertIn("4.230 µs → 3.730 µs a token: 11.8 % faster", panel)
        captions = self.browser.evaluate("[...document.querySelectorAll('#panel caption')].map(c => c.firstChild.textContent)")
        self.assertEqual(captions, ["On the critical path", "By op, of all states"])
        first = self.browser.text("#panel tbody tr").split("\t")
        self.assertEqual((first[1], first[4]), ("compute", "−0.20"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.pane').length"), 2)

    def test_both_charts_show_the_same_time_of_their_tokens(self):
        self.assertAlmostEqual(self.view()[1], 1.02 * 5230, delta=5)
        for chart in (0, 1):
            self.browser.click(*self.find(["gate_up, layer 0", "consumer: compute", "SM 0"], chart))
            self.assertIn(" at 250 ns", self.selected())

    def test_x_goes_to_the_same_instruction_in_the_other_trace(self):
        self.browser.key(".")
        self.browser.key(".")
        self.assertEqual(self.browser.text("#panel h3"), "down, layer 0 (before.json)")
        self.browser.key("x")
        self.assertEqual(self.browser.text("#panel h3"), "down, layer 0 (after.json)")

    def test_charts_stand_under_or_beside_each_other(self):
        first, second = [self.browser.box(f".pane:nth-child({n})") for n in (1, 2)]
        self.assertEqual(first[0], second[0])
        self.browser.key("o")
        first, second = [self.browser.box(f".pane:nth-child({n})") for n in (1, 2)]
        self.assertEqual(first[1], second[1])
        self.assertGreaterEqual(second[0], first[0] + first[2])

    def test_search_finds_in_both(self):
        self.browser.key("/")
        self.browser.type("advance")
        self.assertEqual(self.browser.text("#search-count"), "2 found")

    def test_the_report_has_the_tables_of_both(self):
        self.browser.key("r")
        panel = self.browser.text("#panel")
        self.assertIn("Report of before.json", panel)
        self.assertIn("Report of after.json", panel)


class Host(Case):
    page = "host.html"

    def test_roles_that_did_nothing_are_not_shown_until_asked_for(self):
        self.assertEqual(self.pressed("roles"), ["preparer", "consumer", "storer"])
        self.find(["storer: signal", "SM 3"])
        self.browser.key("2")
        self.assertEqual(self.pressed("roles"), ["loader", "preparer", "consumer", "storer"])

    def test_timings_are_of_the_events_that_happened(self):
        self.browser.click(*self.find(["down, layer 0", "consumer: compute", "SM 2"]))
        self.assertIn("8 events", self.browser.text("#panel"))


    def test_a_limit_that_is_not_known_is_neither_drawn_nor_stated(self):
        self.assertEqual(self.ink(0, self.variable("limit")), 0)
        self.assertIn("Bandwidth over the whole trace", self.browser.text("#panel"))
        self.assertNotIn("dashed line", self.browser.text("#panel"))


class Tiles(Case):
    page = "tiles.html"

    def test_arithmetic_has_its_limit_beside_that_of_bandwidth(self):
        figures = self.browser.evaluate("[...document.querySelectorAll('#panel h4')].map(h => h.textContent)")
        self.assertEqual(figures, ["Bandwidth over time", "Arithmetic over time", "Imbalance"])
        panel = self.browser.text("#panel")
        self.assertIn("the dashed line is the limit, 100 GB/s", panel)
        self.assertRegex(panel, r"Arithmetic over the whole trace, up to [0-9.]+ TFLOP/s; the dashed line is the limit, 8 TFLOP/s")
        self.assertRegex(self.browser.text("#panel .summary"), "% of the limit of 8 TFLOP/s")
        # Dashes are 5 of 8 pixels of a line that is no longer than the canvas: so many are of more than one.
        width = self.browser.evaluate("document.querySelector('.chart canvas').width")
        self.assertGreater(self.ink(0, self.variable("limit")), 0.8 * width)


class Hostile(Case):
    page = "hostile.html"

    def test_names_are_text_whatever_is_in_them(self):
        self.assertIsNone(self.browser.evaluate("window.broken ?? null"))
        self.assertIn("onerror=window.broken=2>&amp;", self.browser.text("#facts"))
        self.browser.key(".")
        self.assertIn("</script><script>window.broken=1</script><!--<img src=x", self.browser.text(".disassembly"))
        self.assertIsNone(self.browser.evaluate("window.broken ?? null"))


class Damaged(Case):
    def check_quiet(self):
        self.assertTrue(self.browser.problems)  # the page throws what it shows, for whoever looks at the console
        self.assertEqual(set(self.browser.requests), {f"file://{self.address}", f"file://{self.folder.name}/damaged.html"})

    def test_a_page_with_damaged_numbers_says_so(self):
        with open(self.address, encoding="utf-8") as file:
            text = file.read()
        at = text.index("\n", text.index('application/x-serval-trace">\n{') + 40) + 1000
        with open(f"{self.folder.name}/damaged.html", "w", encoding="utf-8") as file:
            file.write(text[:at] + "AAAA" + text[at + 4:])
        self.browser.open(f"{self.folder.name}/damaged.html")
        self.assertIn("This page cannot be shown: ", self.browser.text("[role=alert]"))


if __name__ == "__main__":
    if browser.find() is None:
        print("SKIPPED: the page is not opened, there is no Chromium on this machine: tools/install_packages.sh test")
        sys.exit(SKIPPED)
    unittest.main()
