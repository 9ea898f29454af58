"""What the tests of the page of tutti lab share: a browser that has it open."""

import functools
import os
import sys
import tempfile
import unittest

from browser import Browser, find_browser
from support import tutti


def again_if_the_browser_ends(tests):
    """A browser that dies, or answers nothing for a minute, is no defect of the page: once more, with another one."""
    def again(test):
        @functools.wraps(test)
        def run(self):
            try:
                test(self)
            except (ConnectionError, TimeoutError) as error:
                print(f"{test.__name__}: {error}; again", file=sys.stderr)
                self.page.close()
                self.start()
                test(self)
        return run

    for name in unittest.TestLoader().getTestCaseNames(tests):
        setattr(tests, name, again(getattr(tests, name)))


class LabBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if find_browser() is None:
            raise unittest.SkipTest("no chromium here; apt-get install chromium")
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "lab.html")
        cls.addClassCleanup(cls.folder.cleanup)

    def setUp(self):
        try:
            self.start()
        except (ConnectionError, TimeoutError) as error:
            print(f"{error}; again", file=sys.stderr)
            self.start()
        self.addCleanup(lambda: self.page.close())

    def start(self):
        self.page = Browser()
        self.open()

    def tearDown(self):
        self.assertEqual(self.page.problems(), [])

    def open(self, *arguments):
        done = tutti("lab", "-m", "7b", "-n", "64", *arguments, "--html", self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.page.open(self.path)
