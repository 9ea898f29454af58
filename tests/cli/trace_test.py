"""tutti trace: the last calls of a job, and who came late to them."""

import json
import os
import pathlib
import signal
import tempfile
import unittest

from support import LIAR, LIMIT, main, tutti
from watched_job import ENDLESS, Job, page_of, until


class Trace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_rank_that_comes_late_is_named(self):
        with Job(*ENDLESS, binary=LIAR, env={"LIAR": "late"}) as job:
            def report():
                done = tutti("trace", "--json", str(job.ranks[3]))
                reduce = [one for one in json.loads(done.stdout)["collectives"] if one["name"] == "all_reduce"]
                return reduce and reduce[0]["calls"] >= 100 and reduce[0]

            found = until(report)
            last = found["last"][0]
            self.assertEqual((found["ranks"], last["rank"]), (4, 1))
            self.assertGreater(last["calls"], 0.7 * found["calls"])
            self.assertGreater(last["late_by_seconds"], 4e-3)
            text = tutti("trace", str(job.runs.pid)).stdout
            self.assertRegex(text, r"4 processes on 1 host: \d+ calls traced")
            self.assertRegex(text, r"world, all_reduce: \d+ calls by 4 ranks in ")
            self.assertRegex(text, r"\n  rank 1 came last in \d+ %, by \d+(\.\d+)? ms in the median: the others lost \d+ % of")

    def test_a_wait_that_still_lasts_counts(self):
        with Job(*ENDLESS) as job:
            os.kill(job.ranks[2], signal.SIGSTOP)

            def waiting():
                done = tutti("trace", "--json", str(job.ranks[1]))
                ranks = json.loads(done.stdout)["ranks"] if done.returncode == 0 else []
                return [one for one in ranks if (one["title"], one["rank"]) == ("world", 1) and one["waiting_seconds"] > 1.5]

            self.assertTrue(until(waiting), "no rank has waited so long before")

    def test_files_say_the_same_again(self):
        events, picture = str(self.folder / "job.trace"), str(self.folder / "job.json")
        with Job(*ENDLESS) as job:
            for file in events, picture:
                done = tutti("trace", str(job.ranks[0]), "-o", file)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                if file == events:
                    said = done.stdout
        again = tutti("trace", events)
        self.assertEqual((again.returncode, again.stdout), (0, said))
        with open(picture) as file:
            page = json.load(file)
        calls = [event for event in page["traceEvents"] if event.get("cat") == "call"]
        self.assertEqual({event["pid"] for event in calls}, {0, 1, 2, 3})
        self.assertTrue(all(event["dur"] >= 0 for event in calls))
        self.assertIn("all_reduce(count=16384, f32, sum)", {event["name"] for event in calls})

    def test_a_process_whose_communicator_fails_leaves_its_trace(self):
        with Job(*ENDLESS, env={"TUTTI_TRACE_FILE": str(self.folder / "%h-%p.trace")}) as job:
            os.kill(job.ranks[2], signal.SIGKILL)
            job.runs.communicate(timeout=LIMIT)
            files = sorted(self.folder.iterdir())
            self.assertEqual({int(file.stem.rsplit("-", 1)[1]) for file in files},
                             {process for rank, process in job.ranks.items() if rank != 2})
        done = tutti("trace", *map(str, files))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # A rank that hears of the death between two calls has none that failed.
        self.assertRegex(done.stdout, r"3 processes on 1 host: \d+ calls traced, in the last [^;]*(; [123] failed)?\n")

    def test_a_signal_has_a_process_write_its_trace_if_that_was_asked_for(self):
        file = self.folder / "%p.trace"
        with Job(*ENDLESS, env={"TUTTI_TRACE_FILE": str(file), "TUTTI_TRACE_SIGNAL": "USR2"}) as job:
            for _ in range(2):  # each time anew
                os.kill(job.ranks[1], signal.SIGUSR2)
                written = self.folder / f"{job.ranks[1]}.trace"
                self.assertTrue(until(written.exists))
                self.assertIn('"tutti_trace":1', written.read_text())
                written.unlink()
            self.assertEqual(list(self.folder.iterdir()), [])
            entered = page_of(job.ranks[1])["processes"][0]["ranks"][0]["entered"]
            self.assertTrue(until(lambda: page_of(job.ranks[1])["processes"][0]["ranks"][0]["entered"] > entered), "it runs on")

    def test_what_is_no_trace_is_refused_with_the_reason(self):
        for name, text, why in [("a", "", "there is no trace to read"), ("b", "{", "has a line that is not JSON"),
                                ("c", "{}\n", "this is not a trace of Tutti's: it has no 'tutti_trace'"),
                                ("d", "[" * 1000 + "]" * 1000, "nested deeper")]:
            (self.folder / name).write_text(text)
            done = tutti("trace", str(self.folder / name))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)
        missing = tutti("trace", str(self.folder / "none"))
        self.assertIn(f"there is no file {self.folder / 'none'}", missing.stderr)
        self.assertIn("its ending says what is written", tutti("trace", "1", "-o", "x.png").stderr)


if __name__ == "__main__":
    main()
