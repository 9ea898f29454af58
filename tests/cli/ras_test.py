"""TUTTI_RAS_ADDR: clients of NCCL's RAS protocol."""

import json
import os
import signal
import socket
import subprocess
import sys
import unittest

from support import LIMIT, main
from watched_job import ENDLESS, Job, until


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Ras(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.env = {"TUTTI_RAS_ADDR": f"127.0.0.1:{self.port}"}

    def ask(self, lines, half_close=False, timeout=LIMIT):
        with socket.create_connection(("127.0.0.1", self.port), timeout) as client:
            client.sendall(lines.encode())
            if half_close:
                client.shutdown(socket.SHUT_WR)
            reply = b""
            while got := client.recv(65536):
                reply += got
        return reply.decode()

    def test_programs_that_read_json(self):
        with Job(*ENDLESS, env=self.env) as job:
            for half_close in False, True:
                reply = self.ask("TIMEOUT 5\nSET FORMAT json\nVERBOSE STATUS\n", half_close)
                self.assertTrue(reply.startswith("OK\nOK\n{"), reply[:100])
                page = json.loads(reply[reply.index("{"):])
                world = [one for one in page["communicators"] if one["size"] == 4]
                self.assertEqual(len(world), 1)
                self.assertEqual([rank["pid"] for rank in world[0]["ranks"]], [job.ranks[rank] for rank in range(4)])
                self.assertEqual(world[0]["missing_ranks_count"], 0)
                counts = [rank["collective_counts"]["AllReduce"] for rank in world[0]["ranks"]]
                self.assertGreater(min(counts), 0)

    def test_people_who_read_text(self):
        with Job(*ENDLESS, env=self.env):
            text = self.ask("client protocol 2\r\nstatus\r\n")
        self.assertTrue(text.startswith("SERVER PROTOCOL 2\nNCCL version 2."), text)
        self.assertRegex(text, r"\n +1 +4 +1 +4 +4\n\nCommunicators\.\.\. \(\d\.\d{3}s\)\n=============\n")
        self.assertRegex(text, r"\n    \d +\d +1 +4 +4 +\d+   RUNNING +(OK|MISMATCH)\n")

    def test_a_stopped_rank_is_missing(self):
        with Job(*ENDLESS, env=self.env) as job:
            os.kill(job.ranks[2], signal.SIGSTOP)

            def missing():  # the kernel may choose the stopped process
                try:
                    reply = self.ask("SET FORMAT json\nSTATUS\n", timeout=2)
                except TimeoutError:
                    return None
                world = [one for one in json.loads(reply[reply.index("{"):])["communicators"] if one["size"] == 4]
                return world[0]["missing_ranks"]

            found = until(missing)
            self.assertEqual([(one["rank"], one["pid"]) for one in found], [(2, job.ranks[2])])
            self.assertEqual(found[0]["status"], {"unresponsive": True, "considered_dead": False})

    @unittest.skipIf(os.geteuid() != 0, "only root can ask as another user")
    def test_another_user_of_the_host_is_refused(self):
        ask = (f"import encodings.idna, os, socket; os.setuid(65534); s = socket.create_connection((%r, {self.port}), 10)\n"
               "try: s.sendall(b'STATUS\\n'); print(len(s.recv(100)))\n"
               "except ConnectionError: print(0)")
        with Job(*ENDLESS, env=self.env):
            for address in "127.0.0.1", "::ffff:127.0.0.1":
                done = subprocess.run([sys.executable, "-c", ask % address], capture_output=True, text=True, timeout=LIMIT)
                self.assertEqual(done.stdout, "0\n", done.stderr)

    def test_what_is_no_command_is_told_and_a_flood_is_cut_off(self):
        with Job(*ENDLESS, env=self.env):
            with socket.create_connection(("127.0.0.1", self.port), LIMIT) as client:
                client.sendall(b"HELLO\n\nMONITOR\n")
                reply = b""
                while reply.count(b"\n") < 3:
                    reply += client.recv(1000)
                self.assertEqual(reply, b"ERROR: Unknown command HELLO\nERROR: Unknown command \n"
                                        b"ERROR: Unknown command MONITOR\n")
                client.sendall(b"x" * 2000)
                try:
                    self.assertEqual(client.recv(100), b"")
                except ConnectionResetError:
                    pass


if __name__ == "__main__":
    main()
