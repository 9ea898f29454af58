"""tutti watch: what it serves, and to whom. watch_page_test.py looks at the page in a browser."""

import os
import socket
import subprocess
import sys
import unittest

from support import LIAR, LIMIT, main, tutti
from watched_job import ENDLESS, Job, until
from watched_page import get, samples, watch

class Served(unittest.TestCase):
    def test_samples_follow_each_other_and_say_who_waits(self):
        with Job(*ENDLESS, binary=LIAR, env={"LIAR": "late"}) as job, watch(job.ranks[2]) as port:
            page = until(lambda: (found := samples(port))["last"] >= 3 and found)
            self.assertEqual((page["title"], page["processes"], page["hosts"], page["error"]), ("world", 4, 1, None))
            self.assertEqual([one["number"] for one in page["samples"]], list(range(1, page["last"] + 1)))
            self.assertEqual({row["rank"] for row in page["rows"]}, set(range(4)))
            waiting = [sum(one["waiting"][rank] for one in page["samples"]) for rank in range(4)]
            self.assertGreater(min(waiting[0], waiting[2], waiting[3]), waiting[1], "rank 1 comes late")
            later = samples(port, page["last"])
            self.assertTrue(all(one["number"] > page["last"] for one in later["samples"]))

    def test_a_process_that_dies_is_followed_by_another_one_and_the_end_is_told(self):
        with Job(*ENDLESS) as job, watch(job.ranks[2]) as port:
            until(lambda: samples(port)["last"] > 0)
            os.kill(job.ranks[2], 9)
            page = until(lambda: (found := samples(port))["error"] and found)  # the launcher ends the others
            self.assertIn("The job has ended, or cannot be asked: ", page["error"])
            self.assertTrue(page["rows"], "as it was last")

    def test_other_requests_are_refused(self):
        with Job(*ENDLESS) as job, watch(job.ranks[0]) as port:
            self.assertEqual(get(port, "/")[0], 200)
            for path, expected in ("/x", 404), ("/samples/x", 404), ("/samples/", 404), ("/samples/99999999999999999999", 404), ("/../", 404):
                self.assertEqual(get(port, path)[0], expected, path)
            self.assertEqual(get(port, "/", method="POST")[0], 405)
            for host in "evil.example", f"evil.example:{port}", "localhost.evil.example", "[::2]":
                self.assertEqual(get(port, "/samples/0", host=host)[0], 403, host)
            for host in f"localhost:{port}", "127.0.0.1", f"[::1]:{port}":  # ways to this host
                self.assertEqual(get(port, "/samples/0", host=host)[0], 200, host)
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.sendall(b"hello\r\n\r\n")
                self.assertIn(b"400", rude.recv(100))

    def test_what_cannot_be_watched_or_served_is_said(self):
        for arguments, words in (([str(os.getpid()), "--http", ":8000"], f"process {os.getpid()} cannot be asked"), (["--http", "8000"], "8000"),
                                 (["--http", "somewhere:8000"], "--http somewhere"), (["--interval", "0"], "--interval")):
            done = tutti("watch", *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

    def test_another_users_connection_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with Job(*ENDLESS) as job, watch(job.ranks[0]) as port:
            ask = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c",
                   f"import socket\ns = socket.create_connection(('127.0.0.1', {port}))\ntry:\n  s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\n"
                   "  print(s.recv(9))\nexcept ConnectionError:\n  print(b'')"]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.stdout, done.stderr), ("b''\n", ""), "root's page is not for others")
            ask[1:3] = ["--reuid=0", "--regid=0"]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.stdout, done.stderr), ("b'HTTP/1.1 '\n", ""))

    def test_a_thousand_connections_that_say_nothing_end_by_themselves(self):
        with Job(*ENDLESS) as job, watch(job.ranks[0]) as port:
            held = []
            try:
                for _ in range(1000):
                    held.append(socket.create_connection(("127.0.0.1", port), LIMIT))
                    held[-1].sendall(b"GET / HT")

                def answered():
                    try:
                        return get(port, "/samples/0")[0] == 200
                    except OSError:
                        return False

                self.assertTrue(until(answered))
            finally:
                for one in held:
                    one.close()


if __name__ == "__main__":
    main()
