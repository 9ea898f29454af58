"""tutti top: rates of a running job."""

import re
import unittest

from support import LIAR, Terminal, main, tutti
from watched_job import ENDLESS, Job


class Top(unittest.TestCase):
    def test_tables_follow_each_other_where_there_is_no_terminal(self):
        with Job(*ENDLESS, binary=LIAR, env={"LIAR": "late"}) as job:
            done = tutti("top", "--times", "2", "--interval", "1", str(job.runs.pid))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("world: 4 processes on 1 host; ranks the worst first\n"), 2)
        rows = re.findall(r"^ +(\d) \S+ +(\d+) +([\d.]+) +([\d.]+) +(\d+) % [#-]{10} .*all_reduce", done.stdout, re.M)
        self.assertEqual(len(rows), 8)
        calls = [int(row[1]) for row in rows]
        self.assertGreater(min(calls), 10)
        self.assertLess(max(calls), 130, "a call begins 8 ms after the one before")
        waits = {int(row[0]): int(row[4]) for row in rows}
        self.assertGreater(min(waits[rank] for rank in (0, 2, 3)), waits[1])
        self.assertLess(waits[1], 50)

    def test_keys_pause_sort_and_end_it(self):
        with Job(*ENDLESS) as job:
            screen = Terminal("top", "--interval", "0.2", str(job.ranks[0]))
            screen.resize(24, 80)
            seen = screen.read_until("ranks the worst first")
            for key, words in ("s", "by waiting"), ("p", "paused"), ("s", "by calls"):
                screen.type(key)
                seen += screen.read_until(words)
            screen.type("q")
            rest, status = screen.end()
        self.assertEqual(status, 0)
        self.assertIn("\x1b[?1049l", rest, "the screen from before is back")
        for line in re.split(r"\r\n|\x1b\[H", seen + rest):
            self.assertLessEqual(len(re.sub(r"\x1b\[[?0-9]*[A-Za-z]", "", line)), 80, line)


if __name__ == "__main__":
    main()
