"""The page of tutti watch, in a real browser.

    watch_page_test.py TUTTI LIAR [FOLDER]      FOLDER: pictures of the page are kept there
"""

import os
import sys
import unittest

from browser import Browser, find_browser
from support import LIAR, main
from watched_job import ENDLESS, Job, until
from watched_page import watch

PICTURES = sys.argv[3] if len(sys.argv) > 3 else None
del sys.argv[3:]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if find_browser() is None:
            raise unittest.SkipTest("no chromium here; apt-get install chromium")

    def open(self, port, **shape):
        page = Browser(**shape)
        self.addCleanup(page.close)
        page.open(f"http://localhost:{port}/")
        return page

    def keep(self, page, name):
        if PICTURES:
            page.screenshot(os.path.join(PICTURES, f"{name}.png"))

    def colours(self, page):
        """Of the heat map: how red its points are, by rank."""
        return page.run("""(() => {
          const c = at("heat"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height), rows = [];
          for (let rank = 0; rank < 4; ++rank) {
            const y = Math.floor((rank + .5) * (c.height - 18) / 4), x = c.width - 4, i = (y * c.width + x) * 4;
            rows.push(d.data[i] - d.data[i + 2]);
          }
          return rows;
        })()""")

    def test_a_job_with_a_late_rank(self):
        with Job(*ENDLESS, binary=LIAR, env={"LIAR": "late"}) as job, watch(job.ranks[0]) as port:
            page = self.open(port)
            until(lambda: page.run("samples.length") >= 8)
            self.assertEqual(page.text("#title"), "world: 4 processes on 1 host")
            self.assertEqual(page.run("document.querySelectorAll('#rows tr').length"), 4)
            def rank_1_is_coldest():
                hot = self.colours(page)
                return min(hot[0], hot[2], hot[3]) > hot[1] + 20

            self.assertTrue(until(rank_1_is_coldest))
            self.assertRegex(page.text("#rates"), r"[\d.]+ .B/s sent .* [\d]+ calls/s")
            self.keep(page, "late")
            page.shape(390, 800, dark=True)
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
            self.keep(page, "late-narrow-dark")
            self.assertEqual(page.problems(), [])

    def test_a_job_that_is_stuck(self):
        with Job(*ENDLESS, binary=LIAR, env={"LIAR": "stall:2:2000"}) as job, watch(job.ranks[0]) as port:
            page = self.open(port)
            until(lambda: "for rank 2 (process" in page.text("#verdicts"))
            self.assertIn("ranks 0, 1, 3 wait, directly or not, for rank 2", page.text("#verdicts"))
            until(lambda: page.run("document.querySelectorAll('#graph rect').length") >= 2)
            shown = page.run("[...document.querySelectorAll('#graph text')].map((e) => e.textContent)")
            self.assertIn("rank 2", shown)
            self.assertGreaterEqual(page.run("document.querySelectorAll('#graph .edge').length"), 1)
            self.keep(page, "stuck")
            job.__exit__()
            until(lambda: "has ended" in page.text("#verdicts"))
            self.assertEqual(page.text("#age"), "no answer from the job")
            self.assertEqual(page.problems(), [])

    def test_it_pauses(self):
        with Job(*ENDLESS) as job, watch(job.ranks[0]) as port:
            page = self.open(port)
            until(lambda: page.run("samples.length") >= 2)
            page.click("#pause")
            self.assertEqual((page.text("#pause"), page.text("#age")), ("Go on", "paused"))
            before = page.text("#rates")
            count, came = page.run("samples.length"), page.run("kept.length")
            until(lambda: page.run("kept.length") > came + 2)
            page.shape(900, 800)  # drawn again
            self.assertEqual((page.text("#rates"), page.run("samples.length")), (before, count))
            page.click("#pause")
            until(lambda: page.text("#rates") != before)
            self.assertNotEqual(page.text("#rates"), before)


if __name__ == "__main__":
    main()
