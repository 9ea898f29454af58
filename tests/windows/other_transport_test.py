"""Windows between hosts, whose messages another transport carries than the one with the device: which device is used, if
any, and what the log says of it. Arguments: tutti, the tests of windows, the folders of cmadevice and of ucx, or none."""

import os
import re
import subprocess
import sys
import unittest

TUTTI, WINDOWS, DEVICE_FOLDER, UCX_FOLDER = sys.argv[1:5]
TESTS = "Windows.WhatASignalAnnounces*:Windows.GetsWhat*:Windows.AtomicSteps*:Windows.ASignalFollows*:Windows.Mistakes*"
OVER_RDMA = {"UCX_TLS": "tcp,self,rc"}  # UCX has nothing but tcp here, and this permits RDMA
REQUESTS = "loads and stores to 0; requests to 1 ({})"  # of rank 0


class OtherTransport(unittest.TestCase):
    def ways(self, transport, only_rank=None, **env):
        """How each rank reaches the other one's part, in the first window of a job whose tests pass. `only_rank`: the
        one that has the device; None: both."""
        test = [WINDOWS, "--gtest_filter=" + TESTS]
        if only_rank is not None:
            test = ["sh", "-c", f"[ $TUTTI_RANK = {only_rank} ] || unset TUTTI_MODULES; exec \"$@\"", "sh", *test]
        done = subprocess.run(
            [TUTTI, "run", "-n", "2", "--", *test], capture_output=True, text=True, timeout=250,
            env={**os.environ, "TUTTI_LOG": "info", "TUTTI_FORCE_REMOTE": "1", "TUTTI_MODULES": "cmadevice",
                 "TUTTI_MODULE_PATH": f"{DEVICE_FOLDER}:{UCX_FOLDER}", "TUTTI_VERBS_HCA": "none",
                 "TUTTI_TRANSPORT": transport, **env})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = re.findall(r"rank (\d): window of call \d+: (.*)", done.stdout + done.stderr)
        return [next(way for rank, way in found if rank == str(number)) for number in range(2)]

    @unittest.skipIf(UCX_FOLDER == "none", "built without UCX")
    def test_a_device_is_used_where_ucx_carries_the_messages(self):
        ways = self.ways("ucx", **OVER_RDMA)
        self.assertEqual(ways, [f"RDMA (cmadevice) to {1 - rank}; loads and stores to {rank}" for rank in range(2)])

    @unittest.skipIf(UCX_FOLDER == "none", "built without UCX")
    def test_a_rank_without_a_device_is_reached_by_requests(self):
        ways = self.ways("ucx", only_rank=0, **OVER_RDMA)
        self.assertEqual(ways[0], REQUESTS.format("no device reaches its part: its log has the reason"))
        self.assertRegex(ways[1], r"requests to 0 \(no transport here has RDMA whose bounds a device checks; verbs cannot "
                         r"be used: .+\)")

    @unittest.skipIf(UCX_FOLDER == "none", "built without UCX")
    def test_settings_of_ucx_hold_for_windows(self):
        ways = self.ways("ucx", UCX_TLS="tcp,self")
        self.assertEqual(ways[0], REQUESTS.format("UCX_TLS is tcp,self, without RDMA"))

    def test_no_device_is_used_where_tcp_is_forced(self):
        ways = self.ways("tcp")
        self.assertEqual(ways[0], REQUESTS.format("TUTTI_TRANSPORT is tcp: windows use no RDMA either"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
