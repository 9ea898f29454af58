"""TUTTI_METRICS: counts of a job's ranks for Prometheus."""

import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from support import LIMIT, main, tutti
from watched_job import ENDLESS, Job, until

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:  # the format is looked at without it too
    text_string_to_metric_families = None

SAMPLE = re.compile(r'^(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} (-?\d+(?:\.\d+)?)$')


def samples_of(text):
    """(name, labels, value), in order; every line that is no comment must be one."""
    lines = text.splitlines()
    assert lines[-1] == "# EOF", lines[-1]
    found = []
    for line in lines:
        if not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            found.append((name, dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)), float(value)))
    return found


class Setting(unittest.TestCase):
    def test_an_invalid_one_is_an_error_at_the_start(self):
        for name, value, words in (("TUTTI_METRICS", "xyz", "TUTTI_METRICS=xyz: expected :PORT, ADDRESS:PORT, unix:NAME or file:/PATH"),
                                   ("TUTTI_RAS_ADDR", "foo", "TUTTI_RAS_ADDR=foo: expected HOST:PORT, such as localhost:28028")):
            done = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "1", env={name: value})
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)


class Metrics(unittest.TestCase):
    def setUp(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]

    def get(self, path="/metrics", accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=LIMIT) as reply:
            return reply.headers["Content-Type"], reply.read().decode()

    def test_one_process_serves_all_of_the_host(self):
        with Job(*ENDLESS, env={"TUTTI_METRICS": f"127.0.0.1:{self.port}"}) as job:
            def calls():
                found = {labels["process"]: value for name, labels, value in samples_of(self.get()[1])
                         if name == "tutti_calls_total" and labels["collective"] == "all_reduce"
                         and labels["communicator"] == "world"}
                return len(found) == 4 and found

            first = until(calls)
            self.assertEqual(set(first), {str(process) for process in job.ranks.values()})
            time.sleep(0.3)
            self.assertTrue(all(calls()[process] > value for process, value in first.items()))
            kind, text = self.get()
            self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
            if text_string_to_metric_families is not None:
                names = {family.name for family in text_string_to_metric_families(text)}
                self.assertIn("tutti_calls", names)
            sent = [(labels, value) for name, labels, value in samples_of(text) if name == "tutti_sent_bytes_total"
                    and labels["collective"] == "all_reduce" and labels["communicator"] == "world"]
            self.assertEqual({labels["min_bytes"] for labels, _ in sent}, {"65536"})
            self.assertTrue(all(value > 0 for _, value in sent))
            counts = {}
            for name, labels, value in samples_of(text):
                if name in ("tutti_calls_total", "tutti_traced_calls_total"):
                    counts.setdefault(tuple(sorted(labels.items())), {})[name] = value
            for labels, of in counts.items():  # a call is counted as it ends, a moment before it has been traced
                self.assertLessEqual(of["tutti_traced_calls_total"], of["tutti_calls_total"] + 1, labels)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.get("/etc/passwd")
            self.assertEqual(refused.exception.code, 404)
            with socket.create_connection(("127.0.0.1", self.port), LIMIT) as rude:
                rude.sendall(b"nonsense\r\n\r\n")
                self.assertIn(b"400 Bad Request", rude.recv(1000))

    def test_those_who_do_not_ask_for_openmetrics_get_the_older_format(self):
        with Job(*ENDLESS, env={"TUTTI_METRICS": f"127.0.0.1:{self.port}"}):
            kind, text = until(lambda: self.get(accept="*/*"))
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn("# TYPE tutti_calls_total counter\n", text)
        self.assertNotIn("# EOF", text)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_links_over_tcp_are_counted_by_peer(self):
        with Job(*ENDLESS, env={"TUTTI_METRICS": f"127.0.0.1:{self.port}", "TUTTI_TRANSPORT": "tcp"}):
            def links():
                counts = {}
                for name, labels, value in samples_of(self.get()[1]):
                    if name.startswith("tutti_link_") and labels["communicator"] == "world" and labels["transport"] == "tcp":
                        counts.setdefault(name, {})[labels["rank"], labels["peer"]] = value
                return len(counts) == 4 and max(counts["tutti_link_sent_bytes_total"].values()) > 1 << 20 and counts

            counts = until(links)
        self.assertTrue(counts)
        sent, received = counts["tutti_link_sent_bytes_total"], counts["tutti_link_received_bytes_total"]
        self.assertEqual(set(sent), {(to, by) for by, to in received}, "who sends to a peer is that peer's peer")
        self.assertGreater(max(counts["tutti_link_busy_seconds_total"].values()), 0)

    def test_each_process_writes_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            with Job(*ENDLESS, env={"TUTTI_METRICS": f"file:{folder}/%p.prom"}) as job:
                paths = [pathlib.Path(folder, f"{process}.prom") for process in job.ranks.values()]
                self.assertTrue(until(lambda: all(path.exists() for path in paths)))
                for path in paths:
                    text = path.read_text()
                    self.assertIn("# TYPE tutti_calls_total counter\n", text)
                    self.assertNotIn("# EOF", text)
                    self.assertEqual(path.stat().st_mode & 0o777, 0o644)


if __name__ == "__main__":
    main()
