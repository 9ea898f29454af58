"""The lesson on the page of tutti lab: what each part shows is what a hand calculation gives."""

from lab_browser import LabBrowser, again_if_the_browser_ends
from support import main

# By hand: 2 · 13; 16 · 13; (4 + 12/8) · 7; 16 · 70/80 = 14, so 16; √(64/4); 2 · 15/16; 6 + 6; few rounds; 3 · 14 · 7/8; 8192 · 32768/8;
# 989 T · 0.5/50 G; 7/31; 3/(m + 3) ≤ 0.1; min(32, 8).
ANSWERS = ("26.0 GB", "208 GB", "38.5 GB", "16", "4", "1.88 GB", "12", "recursive doubling", "36.8 GB", "33.6 M", "9890", "22.6 %", "27", "8")

# What the part shows that an erratum leads to. By hand: 2 · 175; 16 · 7; 16 / 4.1875; 16 / (8 + 8/1024); 80 · 64 / 16; 112 / 32; 6 · 7 · 63/64;
# 2 · 7/8 · 4; 3/11; 58.7 MB / 300 GB/s; 32 · 16 · 33.6 MB; 6 · 7e9 · 1e12 / 156e12 s.
ERRATA = ("350 GB", "112 GB", "÷ 3.82", "÷ 2.00", "320 billion", "3.50 GB", "41.3 GB", "7.00 GB", "27.3 %", "27.3 %", "196 µs", "17.2 GB", "8.53",
          "BLOOM 176B", "OPT-175B")

# What is wrong of a part: texts outside of their picture, a page that is wider than the window, numbers that are none.
LOOKS_WRONG = """(section) => [...section.querySelectorAll('svg')].flatMap((svg) => {
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  return [...svg.querySelectorAll('text')].filter((text) => {
    const box = text.getBBox();
    return box.x < -1 || box.x + box.width > width + 1 || box.y < -2 || box.y + box.height > height + 3;
  }).map((text) => `${section.id}: ${text.textContent} is cut off`);
}).concat(document.documentElement.scrollWidth > innerWidth ? [`${section.id} is too wide`] : [],
  /NaN|undefined|Infinity/.test(section.innerText) ? [`${section.id} shows no number`] : [])"""

# Texts with less than 4.5 : 1 to what is behind them.
LOW_CONTRAST = """(() => {
  const rgb = (text) => {
    const share = text.match(/color\\(srgb ([\\d.]+) ([\\d.]+) ([\\d.]+)/), list = text.match(/[\\d.]+/g).map(Number);
    return share ? share.slice(1, 4).map((x) => x * 255) : list.length > 3 && list[3] === 0 ? null : list.slice(0, 3);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const behind = (e) => e ? rgb(getComputedStyle(e).backgroundColor) || behind(e.parentElement) : [255, 255, 255];
  const texts = [...document.querySelectorAll('body *')].filter((e) => !e.closest('svg') && e.offsetParent && !e.disabled
      && [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
  const boxes = [...document.querySelectorAll('.box text, .op text')];
  return [...texts.map((e) => [e, ratio(rgb(getComputedStyle(e).color), behind(e))]),
    ...boxes.map((e) => [e, ratio(rgb(getComputedStyle(e).fill), rgb(getComputedStyle(e.parentNode.querySelector('rect')).fill))])]
    .filter(([, r]) => r < 4.5).map(([e, r]) => `${e.tagName} ${e.textContent.slice(0, 20)}: ${r.toFixed(2)}`);
})()"""


class LabLesson(LabBrowser):
    def check(self, expected, within="body"):
        """The page shows these numbers, to twelve digits."""
        for name, value in expected.items():
            shown = self.page.number(name, within)
            self.assertLessEqual(abs(shown - value), 1e-12 * abs(value), f"{name}: {shown}, not {value}")

    def test_errata_have_the_right_numbers(self):
        self.check({"err-gpt3": 350e9, "err-adam": 112e9, "err-zero1": 16 / 4.1875, "err-zero2": 16 / 2.21875, "err-most3": 320e9,
                    "err-parts": 3.5e9, "err-zero3": 0.5, "err-ring": 7e9, "err-ddp": 24.5e9, "err-bubble": 3 / 11, "err-gpipe": 3 / 11,
                    "err-1f1b": 3 / 11, "err-held": 4, "err-held-gpipe": 8})
        self.assertAlmostEqual(self.page.number("err-f32-1"), 2, 6)
        self.assertAlmostEqual(self.page.number("err-f32-2"), 4, 6)
        self.assertAlmostEqual(self.page.number("err-tp-comm") * 1e3, 0.1957, 4)  # ms: 2 · 7/8 · 33.5 MB / 300 GB/s
        self.assertAlmostEqual(self.page.number("err-tp-mlp") * 1e3, 0.4405, 4)  # ms: 4 · 4096 · 67.1 M / 8 / 312 TFLOP/s
        self.assertAlmostEqual(self.page.number("err-tp-by"), 0.444, 3)
        self.assertAlmostEqual(self.page.number("err-years"), 8.53, 2)
        self.assertEqual(self.page.number("err-one"), 2 * 4096 * 4096 * 32)
        self.assertGreater(self.page.number("err-kept"), 15 * self.page.number("err-one"))
        broken = self.page.run("[...document.querySelectorAll('a[href^=\"#\"]')].filter((a) => !document.querySelector(a.hash)).map((a) => a.hash)")
        self.assertEqual(broken, [])

    def test_each_erratum_leads_to_its_number(self):
        """Its link sets the sliders of the part that it leads to, wherever they stood."""
        shown = self.page.run("""(() => {
          for (const slider of document.querySelectorAll('section:not(#plan) input[type=range]')) {
            slider.value = 0;
            slider.dispatchEvent(new Event('input'));
          }
          return [...document.querySelectorAll('#errata-list a')].map((link) => {
            link.click();
            return document.querySelector(link.hash).innerText;
          });
        })()""")
        self.assertEqual(len(shown), len(ERRATA))
        for text, number in zip(shown, ERRATA):
            self.assertIn(number, text)

    def test_the_largest_model_and_the_precision_of_zero(self):
        self.check({"zero-most-0": 5e9, "zero-most-1": 80e9 / 4.1875, "zero-most-2": 80e9 / 2.21875, "zero-most-3": 320e9})
        self.page.slide("zero-parts", "4")
        self.page.slide("zero-ranks", "8")
        self.check({"zero-0": 28e9, "zero-3": 3.5e9})
        self.page.choose("zero-precision", "1")
        self.check({"zero-1": 7e9 * 9 / 4, "zero-2": 7e9 * (4 + 12 / 8) / 4})
        self.page.slide("zero-memory", "24.0 GB")
        self.assertIn("In 24.0 GB fit ZeRO-1, ZeRO-2, ZeRO-3", self.page.text("#zero-numbers .verdict"))

    def test_the_price_of_a_run(self):
        self.check({"C": 4.2e22, "one": 4.2e22 / 156e12, "D_best": 1.4e11}, "#price")
        self.assertAlmostEqual(self.page.number("years", "#price"), 8.53, 2)
        self.assertAlmostEqual(self.page.number("days", "#price"), 48.7, 1)
        self.assertAlmostEqual(self.page.number("cost", "#price"), 2 * 4.2e22 / 156e12 / 3600, 3)
        self.assertEqual(self.page.run("document.querySelectorAll('#published tbody tr').length"), self.page.run("data.published.length"))
        self.assertLess(self.page.number("published-median"), 0.12)

    def test_collectives_add_the_numbers(self):
        self.assertIn("rank 0 sends block 3 to rank 1, which adds it and has 1 + 2 + 4 = 7", self.page.text("#coll-text"))
        self.page.click("#coll-next")
        self.assertIn("1 + 2 + 3 + 4 = 10", self.page.text("#coll-text"))
        self.page.slide("coll-step", "6 of 6")
        self.assertEqual(self.page.run("[...document.querySelectorAll('#coll-picture td.complete b')].map((e) => e.textContent)"), ["10"] * 16)
        self.page.choose("coll-kind", "9")  # all-to-all
        self.page.slide("coll-step", "4 of 4")
        self.assertEqual(self.page.run("[...document.querySelectorAll('#coll-picture td b')].map((e) => e.textContent).join(' ')"),
                         "11 21 31 41 12 22 32 42 13 23 33 43 14 24 34 44")
        # What each ends with, and its closed forms, for every number of ranks.
        wrong = self.page.run("""COLLECTIVES.flatMap((c, kind) => [2, 3, 4, 5, 6, 7, 8].filter(c.only || (() => true)).filter((n) => {
          const {held, rounds, sent} = played(c, n, 99), all = oneEach(n, (r) => r + 1);
          const want = (r, b) => [all, all, all, b === r ? all : null, [b + 1], [1], r === 0 ? all : null, b === r ? [r + 1] : null, r === 0 ? [b + 1] : null,
            [10 * (b + 1) + r + 1]][kind];
          const right = held.every((mine, r) => mine.every((sum, b) => want(r, b) === null || String(sum) === String(want(r, b))));
          return !right || rounds !== closedForm(c.steps, n) || Math.abs(sent - closedForm(c.sent, n)) > 1e-12;
        }).map((n) => [c.name, n]))""")
        self.assertEqual(wrong, [])

    def test_the_cost_of_an_all_reduce_as_ranks_are_added(self):
        s, w, a = 4e9, 50e9, 14e-6
        self.check({"t_server": 2 * (a + 7 * s / w), "t_chain": 14 * (a + s / w), "t_tree": 6 * (a + s / w), "t_oneshot": a + 7 * s / w,
                    "t_doubling": 3 * (a + s / w), "t_ring": 14 * (a + s / 8 / w), "t_twoshot": 2 * (a + 7 / 8 * s / w),
                    "t_halving": 6 * a + 14 / 8 * s / w}, "#growth")
        self.page.choose("growth-measure", "1")
        self.check({"p_server": 28e9, "p_chain": 8e9, "p_tree": 12e9, "p_oneshot": 28e9, "p_doubling": 12e9, "p_ring": 7e9, "p_halving": 7e9}, "#growth")
        self.page.choose("growth-measure", "2")
        self.check({"v_server": 56e9, "v_oneshot": 224e9, "v_doubling": 96e9, "v_ring": 56e9}, "#growth")

    def test_ddp_hides_all_but_the_last_bucket(self):
        self.check({"sent": 24.5e9, "K": 14, "t_back": 4 * 7e9 * 4096 / 156e12, "t_bucket": 14 * (14e-6 + 1e9 / 8 / 25e9)}, "#ddp")
        for bucket in ("25.0 MB", "4.00 GB", "16.0 GB"):
            self.page.slide("ddp-bucket", bucket)
            self.assertAlmostEqual(self.page.number("ddp_seen"), self.page.number("shown", "#ddp"), 9)
        self.assertEqual(self.page.number("hidden", "#ddp"), 0)
        self.page.slide("ddp-link", "100 GB/s")
        self.page.slide("ddp-bucket", "1.00 GB")
        self.assertEqual(self.page.number("shown", "#ddp"), self.page.number("t_bucket", "#ddp"))
        self.assertAlmostEqual(self.page.number("ddp_seen"), self.page.number("shown", "#ddp"), 9)

    def test_fsdp_gathers_and_releases(self):
        self.check({"sent_fsdp": 6 * 7e9 * 63 / 64, "sent_ddp": 4 * 7e9 * 63 / 64, "unit": 1.75e9, "fsdp_peak": 3.5e9,
                    "t_gather": 63 / 64 * 1.75e9 / 50e9, "t_forward": 2 * 7e9 / 8 * 4096 / 156e12}, "#fsdp")
        ahead = self.page.number("fsdp_step")
        self.assertGreaterEqual(ahead, max(self.page.number("t_compute", "#fsdp"), self.page.number("t_comm", "#fsdp")))
        self.page.choose("fsdp-ahead", "0")
        self.check({"fsdp_peak": 1.75e9})
        self.assertGreater(self.page.number("fsdp_step"), ahead)
        left = self.page.run("[2, 8, 32].flatMap((U) => [1, 100].flatMap((speed) => [true, false].map((ahead) => gatherAndRelease({...compute.fsdp("
                             "{Ψ: 7e9, U, N: 8, T: 4096, W: speed * 1e9, F: 312e12, e: 0.5})}, ahead).levels.at(-1)))).filter((at) => "
                             "Math.abs(at.weights) + Math.abs(at.gradients) > 1)")
        self.assertEqual(left, [])  # all is released

    def test_tensor_parallelism_in_numbers(self):
        self.check({"w_mlp": 67108864, "w_mlp_t": 8388608, "w_qkv": 50331648, "C": 4 * 4096 * 8388608, "t_mlp": 4 * 4096 * 8388608 / 312e12,
                    "sent_pair": 7 / 4 * 2**25, "sent_columns": 7 / 8 * 5 * 2**25, "sent_rows": 7 / 4 * 5 * 2**25,
                    "t_comm": 7 / 4 * 2**25 / 300e9}, "#tensor")
        self.assertAlmostEqual(self.page.number("by", "#tensor"), 0.444, 3)
        self.page.slide("tensor-ranks", "4")
        self.assertEqual(self.page.number("w_qkv_t", "#tensor"), 12582912)
        self.page.choose("tensor-split", "1")
        self.assertEqual(self.page.run("document.querySelectorAll('#tensor-picture .between').length"), 2)

    def test_recomputation_is_least_at_the_root(self):
        x = 2 * 4096 * 4096
        self.check({"x": x, "none": 64 * x, "held": 16 * x, "least": 16 * x, "rec_best": 8}, "#recompute")
        self.page.slide("rec-kept", "16 (FlashAttention)")
        self.page.slide("rec-segment", "2")
        self.check({"none": 1024 * x, "held": 64 * x, "least": 64 * x, "rec_best": 2}, "#recompute")

    def test_ring_attention_hides_its_messages_from_some_length_on(self):
        block, rate = 4096, 156e12
        self.check({"block": block, "C": 4 * block**2 * 4096, "t_block": 4 * block**2 * 4096 / rate, "S": 2 * block * 8192, "t_send": 2 * block * 8192 / 50e9,
                    "least": rate / 50e9, "sent_ring": 7 * 2 * block * 8192, "sent_ulysses": 7 / 8 * 2 * block * 4 * 4096}, "#context")
        self.assertEqual(self.page.number("shown", "#context"), 0)
        self.assertAlmostEqual(self.page.number("ctx_seen"), 8 * self.page.number("t_block", "#context"), 12)
        self.page.slide("ctx-length", "16384")  # blocks of 2,048 tokens are shorter than 3,120
        self.assertGreater(self.page.number("shown", "#context"), 0)
        self.assertAlmostEqual(self.page.number("ctx_seen"), self.page.number("t_ring", "#context"), 12)
        self.page.slide("ctx-ranks", "2")  # two ranks: both send the same
        self.check({"sent_ulysses": self.page.number("sent_ring", "#context")}, "#context")
        self.page.slide("ctx-turn", "1")
        self.assertEqual(self.page.run("[...document.querySelectorAll('#ctx-ring td')].map((e) => e.textContent)"), ["done", "now", "now", "done"])

    def test_experts_get_every_choice(self):
        self.check({"mean": 256, "capacity": 320, "S": 2 * 256 * 2 * 4096, "sent": 0.75 * 2 * 256 * 2 * 4096}, "#moe")
        self.assertEqual(self.page.run("[...document.querySelectorAll('#moe-table td')].reduce((sum, e) => sum + Number(e.textContent), 0)"), 2048)
        self.page.slide("moe-skew", "0")
        self.assertLess(self.page.number("slower", "#moe"), 1.25)
        self.page.slide("moe-used", "8")  # all experts: even, whatever the router says
        self.check({"slower": 1}, "#moe")
        self.assertEqual(self.page.number("moe_dropped"), 0)

    def test_exercises_check_the_answer(self):
        for number, answer in enumerate(ANSWERS, 1):
            self.page.click(f"#ex-{number}-check")
            self.assertIn("Not yet.", self.page.text(f"#ex-{number}-result"))
            self.page.slide(f"ex-{number}-answer", answer)
            self.assertEqual(self.page.text(f"#ex-{number}-result"), "")
            self.page.click(f"#ex-{number}-check")
            self.assertIn("Right.", self.page.text(f"#ex-{number}-result"), number)
        self.page.click("#ex-15-check")
        self.assertIn("It does not fit", self.page.text("#ex-15-result"))
        self.page.slide("ex-15-tp", "16")
        self.page.slide("ex-15-pp", "8")  # tensor parallelism across hosts: slow
        self.page.click("#ex-15-check")
        self.assertIn("Not yet.", self.page.text("#ex-15-result"))
        for axis, value in self.page.run("(() => { const model = data.models.find((m) => m.name === '70b'); return Object.entries(search({...ofGpu('h100'), ...model, s: 4096, "
                                         "G: 128, B: 1024, sched: 1, sp: 1, fa: 1, gb: 2, p8: 1, chunks: 0}, 1).best[0]).filter(([k]) => ['tp', 'pp', 'zero'].includes(k)); })()"):
            self.page.slide("ex-15-" + axis, str(value))
        self.page.click("#ex-15-check")
        self.assertIn("Right.", self.page.text("#ex-15-result"))
        self.assertEqual(self.page.number("solved"), 15)

    def test_nothing_is_cut_off_on_a_phone_at_any_extreme(self):
        self.page.shape(390, 844)
        self.page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # pictures take the new width
        for part in self.page.run("[...document.querySelectorAll('section:not(#plan)')].map((section) => section.id)"):
            wrong = self.page.run("""(() => {
              const looks = """ + LOOKS_WRONG + """, move = (slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); };
              const section = document.getElementById('""" + part + """'), sliders = [...section.querySelectorAll('input[type=range]')], wrong = looks(section);
              const extremes = () => [0, 1e9].forEach((to) => { sliders.forEach((slider) => move(slider, to)); wrong.push(...looks(section)); });
              extremes();
              for (const slider of sliders) { move(slider, 0); wrong.push(...looks(section)); move(slider, 1e9); }
              for (const list of section.querySelectorAll('select:not([id$=gpu])')) for (const option of list.options) {
                list.value = option.value;
                list.dispatchEvent(new Event('change'));
                extremes();
              }
              return wrong;
            })()""")
            self.assertEqual(wrong, [])

    def test_texts_can_be_read_in_both_themes(self):
        for dark in (False, True):
            self.page.shape(1440, 900, dark=dark)
            self.assertEqual(self.page.run(LOW_CONTRAST), [])

    def test_works_with_the_keyboard_alone(self):
        self.page.run("document.documentElement.style.scrollBehavior = 'auto'")
        stops = self.page.run("[...document.querySelectorAll('a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), summary, [tabindex=\"0\"]')]"
                              ".filter((e) => e.tabIndex === 0 && e.getClientRects().length > 0 && e.checkVisibility()).length")
        for stop in range(stops):
            self.page.key("Tab")
            shown = self.page.run("(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(); "
                                  "return [e.outerHTML.slice(0, 80), s.outlineStyle !== 'none' && r.bottom > 0 && r.top < innerHeight]; })()")
            self.assertTrue(shown[1], (stop, shown[0]))
        self.page.run("document.getElementById('coll-step').focus()")
        self.page.key("ArrowRight")
        self.assertEqual(self.page.shown("coll-step"), "3 of 6")
        self.page.key("Tab")
        self.page.key("Enter")  # Back
        self.assertEqual(self.page.shown("coll-step"), "2 of 6")


again_if_the_browser_ends(LabLesson)

if __name__ == "__main__":
    main()
