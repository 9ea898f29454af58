"""The lesson on the page of tutti lab: what each part shows is what a hand calculation gives."""

from lab_browser import LabBrowser, again_if_the_browser_ends
from support import main


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


again_if_the_browser_ends(LabLesson)

if __name__ == "__main__":
    main()
