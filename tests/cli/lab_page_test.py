"""The page of tutti lab, in a real browser: sliders are moved by mouse and keyboard, and the numbers that the page then
shows are those of `tutti lab --json` for the same scenario."""

import json
import math
import os

from lab_browser import LabBrowser, again_if_the_browser_ends
from support import main, tutti

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "dualpipe")


def plan(*arguments):
    return json.loads(tutti("lab", *arguments, "--json", "-").stdout)


class LabPage(LabBrowser):
    def check_plan(self, *arguments):
        """The planner's numbers, all of them, are those of the command line."""
        found = plan(*arguments)
        expected = found["best"] or found["smallest"]
        self.page.run("document.querySelectorAll('#plan-result details').forEach((d) => { d.open = true; })")
        self.page.run("new Promise((done) => setTimeout(done))")  # the event that fills them
        shown = self.page.run("Object.fromEntries([...document.querySelectorAll('#plan-result [data-name]')]"
                              ".map((e) => [e.dataset.name, Number(e.dataset.value)]))")
        for name in ("dp", "pp", "cp", "ep", "tp", "chunks"):
            self.assertEqual(self.page.number("layout-" + name), expected["layout"][name], arguments)
        self.assertEqual(self.page.number("layout-ZeRO"), expected["layout"]["zero"])
        self.assertEqual(self.page.number("layout-micro-batch"), expected["layout"]["micro_batch"])
        for figure in expected["figures"]:
            if found["fits"] or figure["part"] in ("layout", "memory"):
                value = shown[figure["name"]]
                self.assertTrue(math.isclose(value, figure["value"], rel_tol=1e-14, abs_tol=1e-30), (arguments, figure, value))
        self.assertEqual(self.page.text("#plan-headline h3").startswith("Nothing"), not found["fits"])

    def test_opens_with_the_plan_of_the_command_line(self):
        self.check_plan("-m", "7b", "-n", "64")
        for arguments in (("--gpu", "a100", "--inter", "12.5", "--memory", "40", "--efficiency", "40"), ("--seq", "32768", "--batch", "96"),
                          ("--schedule", "interleaved", "--chunks", "4"), ("--layers", "48", "--no-sp", "--usable", "50", "--contention", "0")):
            self.open(*arguments)
            self.check_plan("-m", "7b", "-n", "64", *arguments)

    def test_sliders_give_the_same_numbers_as_the_command_line(self):
        self.page.slide("plan-gpus", "256")
        self.check_plan("-m", "7b", "-n", "256")
        self.page.slide("plan-memory", "24.0 GB")
        self.check_plan("-m", "7b", "-n", "256", "--memory", "24")
        self.page.slide("plan-between", "3.13 GB/s")
        self.page.slide("plan-inside", "64.0 GB/s")
        self.page.slide("plan-host", "4")
        links = ("--inter", "3.125", "--intra", "64", "--gpus-per-host", "4")
        self.check_plan("-m", "7b", "-n", "256", "--memory", "24", *links)
        self.page.slide("plan-sequence", "16384")
        self.page.slide("plan-batch", "512")
        self.check_plan("-m", "7b", "-n", "256", "--memory", "24", "--seq", "16384", "--batch", "512", *links)

    def test_lists_give_the_same_numbers_as_the_command_line(self):
        for number, schedule in enumerate(SCHEDULES):
            self.page.choose("plan-schedule", str(number))
            self.check_plan("-m", "7b", "-n", "64", "--schedule", schedule)
        self.page.choose("plan-schedule", "2")
        self.page.choose("plan-gpu", "l40s")
        self.page.choose("plan-model", "8x7b")
        self.page.slide("plan-gpus", "512")
        self.check_plan("-m", "8x7b", "-n", "512", "--gpu", "l40s", "--batch", "1024")

    def test_on_a_topology_calls_take_the_selectors_times(self):
        topology = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies", "nccl-8-gpus-8-nics.xml")
        hosts = ("--topo", topology, "--hosts", "8")
        self.open(*hosts)
        self.check_plan("-m", "7b", "-n", "64", *hosts)
        self.assertIn("the selector, on this topology", self.page.text("#plan-result"))
        self.page.slide("plan-between", "200 GB/s")  # no longer the topology's links: rings
        self.check_plan("-m", "7b", "-n", "64", *hosts, "--inter", "200")
        self.assertNotIn("the selector, on this topology", self.page.text("#plan-result"))

    def test_any_size_has_the_usual_shape(self):
        self.page.slide("plan-gpus", "1024")
        self.page.slide("plan-size", "200 billion")
        self.check_plan("--params", "200b", "-n", "1024")
        self.assertIn("104 layers · hidden size 13312", self.page.text("#plan-shape"))

    def test_says_what_is_short(self):
        self.page.slide("plan-gpus", "8")
        self.page.choose("plan-model", "175b")
        self.check_plan("-m", "175b", "-n", "8", "--batch", "1024")
        self.assertRegex(self.page.text("#plan-headline .verdict"), r"274 GB too much on each GPU: 351 GB of 77.0 GB usable")

    def test_a_layout_of_ones_own(self):
        self.page.slide("plan-tp", "8")
        self.page.slide("plan-cp", "1")
        self.page.slide("plan-zero", "3")
        self.page.slide("plan-b", "1")
        self.page.slide("plan-rc", "whole layers")
        own = ("--tp", "8", "--cp", "1", "--pp", "1", "--zero", "3", "--micro-batch", "1", "--recompute", "all")
        self.check_plan("-m", "7b", "-n", "64", *own)
        self.assertEqual(self.page.text("#plan-headline h3"), "Your layout fits")
        self.page.slide("plan-pp", "32")
        self.assertEqual(self.page.text("#plan-headline"), "tp·pp·cp·ep = 256 needs more than 64 GPUs.")
        self.page.click("#plan-best")
        self.check_plan("-m", "7b", "-n", "64")

    def test_the_reference_values_of_zero(self):
        values = [self.page.number(f"zero-{stage}") for stage in range(4)]
        self.assertEqual(values, [112e9, 29.3125e9, 15.53125e9, 1.75e9])
        self.assertIn("÷ 3.82", self.page.text("#zero-numbers"))
        self.page.slide("zero-size", "70 billion")
        self.page.slide("zero-ranks", "128")
        self.assertEqual(self.page.number("zero-3"), 8.75e9)
        self.page.slide("wall-size", "70 billion")
        self.assertEqual(self.page.number("states", "#wall"), 1120e9)
        self.assertIn("14 GPUs of 80.0 GB", self.page.text("#wall-numbers"))

    def test_the_ring_step_by_step(self):
        self.page.slide("ring-ranks", "8")
        self.assertEqual(self.page.number("ring_sent"), 7e9)
        self.assertEqual(self.page.number("steps", "#ring"), 14)
        for step in range(14):
            self.assertEqual(self.page.number("ring_so_far"), step * 0.5e9)
            self.page.click("#ring-next")
        self.assertEqual(self.page.number("ring_so_far"), 7e9)
        self.assertIn("Now all ranks have the whole sum", self.page.text("#ring-text"))
        self.assertEqual(self.page.run("document.querySelectorAll('#ring td.complete').length"), 64)
        for ranks in (2, 3, 5, 12):
            self.page.slide("ring-ranks", str(ranks))
            self.page.slide("ring-step", f"{ranks - 1} of {2 * ranks - 2}")
            self.assertEqual(self.page.run("document.querySelectorAll('#ring td.complete').length"), ranks)
            self.page.slide("ring-step", f"{2 * ranks - 2} of {2 * ranks - 2}")
            self.assertEqual(self.page.run("document.querySelectorAll('#ring td.complete').length"), ranks * ranks)

    def test_the_drawn_bubble_is_the_formulas(self):
        for batches, share in (("1", 0.75), ("8", 3 / 11), ("12", 0.2), ("16", 3 / 19)):
            self.page.slide("pipe-m", batches)
            self.assertAlmostEqual(self.page.number("bubble", "#pipeline"), share, 12)
            self.assertAlmostEqual(self.page.number("bubble_seen"), share, 12)
        differences = self.page.run("""(() => {
          const wrong = [];
          for (let p = 1; p <= 12; ++p) for (let m = 1; m <= 30; ++m) for (let sched = 0; sched < 4; ++sched) for (const v of [2, 4]) {
            if (sched === 2 && (m % p !== 0 || p === 1)) continue;
            const seen = measured(schedule(sched, p, m, v), p);
            const said = computeStep({...states(7e9), B: m, pp: p, G: p, sched, v: sched === 2 ? v : 1});
            if (Math.abs(seen.idle - said.bubble) > 1e-12 || Math.abs(seen.held - said.q) > 1e-9) wrong.push([sched, p, m, v]);
          }
          return wrong;
        })()""")
        self.assertEqual(differences, [])
        for batches, bubble in (("32", 6 / 102), ("16", 6 / 54)):  # DualPipe: (p − 2)/(3m + p − 2)
            self.page.slide("pipe-p", "8")
            self.page.choose("pipe-schedule", "4")
            self.page.slide("pipe-m", batches)
            self.assertAlmostEqual(self.page.number("bubble", "#pipeline"), bubble, 12)
            self.assertAlmostEqual(self.page.number("bubble_seen"), bubble, 12)
            self.assertAlmostEqual(self.page.number("bubble_1"), 7 / (int(batches) + 7), 12)
        self.page.slide("pipe-m", "5")
        self.assertIn("drawn with p = 8, m = 16", self.page.text("#pipe-numbers"))
        self.page.choose("pipe-schedule", "5")
        self.page.slide("pipe-m", "8")
        self.assertAlmostEqual(self.page.number("bubble_seen"), 7 / 55, 12)
        self.assertEqual(self.page.number("held_seen"), 8)

    def test_schedules_from_both_ends_are_complete(self):
        wrong = self.page.run("""(() => {
          const wrong = [], all = (operations) => operations.flatMap((op) => op.parts || [op]);
          for (const p of [2, 4, 6, 8, 12]) for (let m = 2 * p; m <= 30; m += 2) {
            const dual = schedule(4, p, m, 1), seen = measured(dual, p, true), said = computeStep({...states(7e9), B: m, pp: p, G: p, sched: 4});
            if (Math.abs(seen.idle - said.bubble) > 1e-12 || seen.held !== said.q || all(dual).filter((op) => op.kind === 'F').length !== p * m) wrong.push(['dual', p, m]);
            if (new Set(all(dual).map((op) => `${op.kind} ${op.batch}`)).size < 2 * m) wrong.push(['dual lacks', p, m]);
          }
          for (const p of [1, 2, 3, 4, 5, 8]) for (let m = p; m <= 30; ++m) {
            const vee = schedule(5, p, m, 1), seen = measured(vee, p, true), said = compute.vee({p, m});
            if (seen.idle < said.bubble - 1e-12 || seen.end > 3 * m + p || seen.held > p || vee.length !== 6 * m * p) wrong.push(['vee', p, m, seen]);
          }
          return wrong;
        })()""")
        self.assertEqual(wrong, [])

    def test_the_grid_shows_each_gpus_groups(self):
        self.page.click("#grid-board button[data-rank='13']")
        text = self.page.text("#grid-groups")
        for words in ("tensor: GPUs 12, 13, 14, 15", "pipeline: GPUs 9, 13", "data: GPUs 5, 13, 21, 29"):
            self.assertIn(words, text)
        self.page.key("ArrowRight")
        self.assertEqual(self.page.number("grid_rank"), 14)
        self.page.slide("grid-host", "2")
        self.assertIn("tensor parallelism needs the fast links", self.page.text("#grid-groups"))
        self.page.slide("grid-dp", "8")
        self.assertEqual(self.page.number("grid_gpus"), 64)

    def test_the_grid_has_five_axes_and_a_thousand_gpus(self):
        for axis, size in (("tp", "8"), ("cp", "2"), ("ep", "4"), ("pp", "4"), ("dp", "4"), ("host", "8")):
            self.page.slide("grid-" + axis, size)
        self.assertEqual(self.page.number("grid_gpus"), 1024)
        self.page.run("document.querySelector('#grid-board button[data-rank=\"1023\"]').focus()")
        text = self.page.text("#grid-groups")  # 1023 is 7, 1, 3, 3, 3
        for words in ("GPU 1023 = 7 + 8·(1 + 2·(3 + 4·(3 + 4·3)))", "context: GPUs 1015, 1023", "expert: GPUs 975, 991, 1007, 1023",
                      "pipeline: GPUs 831, 895, 959, 1023", "data: GPUs 255, 511, 767, 1023"):
            self.assertIn(words, text)
        self.page.slide("grid-tp", "16")  # no more are drawn: dp makes room
        self.assertEqual(self.page.number("grid_gpus"), 1024)
        self.assertIn("tensor parallelism needs the fast links", self.page.text("#grid-groups"))

    def test_fits_every_width_and_has_both_themes(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        light = self.page.run(colour)
        for width in (320, 390, 768, 1280, 2000):
            self.page.shape(width, 800, dark=True)
            self.assertLessEqual(self.page.run("document.documentElement.scrollWidth"), width)
        self.assertNotEqual(self.page.run(colour), light)
        self.page.click("#theme")  # auto, then light
        self.assertEqual(self.page.run(colour), light)

    def test_everything_has_a_name_for_those_who_listen(self):
        unnamed = self.page.run("[...document.querySelectorAll('input, select, button')].filter((e) => "
                                "!(e.labels && e.labels.length) && !e.textContent.trim() && !e.ariaLabel).map((e) => e.outerHTML)")
        self.assertEqual(unnamed, [])
        self.assertEqual(self.page.run("[...document.querySelectorAll('svg')].filter((e) => !e.getAttribute('aria-label')).length"), 0)
        shown = self.page.run("[...document.querySelectorAll('.figures tbody tr')].filter((e) => !e.querySelector('.formula').textContent)"
                              ".map((e) => e.textContent)")
        self.assertEqual(shown, [])  # a number without its formula


again_if_the_browser_ends(LabPage)


if __name__ == "__main__":
    main()
