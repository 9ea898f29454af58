#!/usr/bin/env python3
"""Profiles of GPUs, on the stand-in: measured, read by jobs and by `tutti explain`, and refused elsewhere: tune_test.py TUTTI"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

TUTTI = sys.argv.pop(1)
SITUATION = "2 ranks on 2 GPUs, NVLink"


def tutti(*arguments, **env):
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=280, env={**os.environ, **env})


def row_of(profile, explain="0", **env):
    """What ran an all-reduce of 8 bytes, as algorithm and method; and what was logged."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = tutti("perf", "all_reduce", "--device", "cuda", "--np", "2", "-b", "8", "-e", "8", "-n", "1", "-w", "0", "-c",
                     "1", "--json", file.name, TUTTI_PROFILE=profile, TUTTI_EXPLAIN=explain, **env)
        assert done.returncode == 0, done.stderr
        row = json.load(file)["results"][0]
    return (row["algorithm"], row["out_of_place"]["method"]), done.stdout + done.stderr


class GpuProfile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = os.path.join(cls.folder.name, "gpus.json")
        cls.done = tutti("tune", "--device", "cuda", "-n", "2", "-e", "8", "--all", "-o", cls.path)

    def write(self, name, page):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as file:
            json.dump(page, file)
        os.chmod(path, 0o600)
        return path

    def page(self):
        with open(self.path) as file:
            return json.load(file)

    def test_holds_gpus_links_and_every_candidate(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertIn("These are times of a stand-in: they mean nothing.", self.done.stdout)
        page = self.page()
        self.assertEqual(page["gpus"]["models"], ["Fake H200"])
        self.assertRegex(page["gpus"]["driver"], r"CUDA \d+\.\d")
        self.assertEqual(list(page["gpus"]["links"]), ["NVLink"])
        self.assertGreater(page["gpus"]["links"]["NVLink"]["alpha"], 0)
        self.assertEqual(page["links"], {}, "those of host memory")
        self.assertEqual(len(page["machines"]), 1)
        rows = page["measured"]
        self.assertEqual({row["situation"] for row in rows}, {SITUATION})
        self.assertLessEqual({"slots", "ll"}, {row["method"] for row in rows})
        self.assertGreater(len({row["collective"] for row in rows}), 5)
        for row in rows:
            self.assertTrue(all(seconds > 0 for _, seconds in row["times"]), row)

    def test_a_job_follows_it_and_says_so(self):
        rows = [row for row in self.page()["measured"] if row["collective"] == "all_reduce"]
        self.assertGreater(len(rows), 1)
        for chosen in rows[0], rows[-1]:
            page = self.page()
            for row in page["measured"]:
                fast = row["collective"] == "all_reduce" and all(row[key] == chosen[key] for key in ("algorithm", "method"))
                row["times"] = [[size, 1e-6 if fast else 1] for size, _ in row["times"]]
            page["gpus"]["links"]["NVLink"] = {"alpha": 4.5e-5, "beta": 1e-9}
            path = self.write("doctored.json", page)
            used, log = row_of(path, explain="1")
            self.assertEqual(used, (chosen["algorithm"], chosen["method"]))
            self.assertIn(f"({SITUATION})", log)
            self.assertRegex(log, r"inside a host: 45 us and 1 GB/s \(NVLink: cuda, measured by `tutti tune`\)")
            self.assertRegex(log, rf"\* {chosen['algorithm']} +{chosen['method']} .* 1\.0+ +(-|[0-9.]+ %) +chosen")
            told = tutti("explain", "all_reduce", "--device", "cuda", "-n", "2", "--bytes", "8", "--json", TUTTI_PROFILE=path)
            self.assertEqual(told.returncode, 0, told.stderr)
            first = json.loads(told.stdout)["candidates"][0]
            self.assertEqual((first["algorithm"], first["method"], first["measured"]), (*used, 1e-6))
            self.assertIn("measured by `tutti tune`", json.loads(told.stdout)["inside"]["kind"])

    def test_methods_that_run_only_where_they_are_forced_run_where_they_were_measured(self):
        methods = lambda collective: {row["method"] for row in self.page()["measured"] if row["collective"] == collective}
        self.assertIn("copy_engine", methods("all_gather"))
        self.assertIn("nvls", methods("all_reduce"))
        self.assertNotIn("nvls", methods("all_to_all"))
        page = self.page()
        for row in page["measured"]:
            row["times"] = [[size, 1e-6 if row["method"] == "nvls" else 1] for size, _ in row["times"]]
        path = self.write("nvls.json", page)
        self.assertEqual(row_of(path)[0][1], "nvls")
        self.assertNotEqual(row_of("off")[0][1], "nvls")
        used, log = row_of(path, FAKE_CUDA_INJECT="no_bind@1")
        self.assertNotEqual(used[1], "nvls")
        self.assertRegex(log, r"times of nvls, which cannot be used: rank 1: GPU 1 .* memory cannot be bound to multicast memory")

    def test_host_memory_is_left_alone(self):
        log = row_of(self.path, explain="1")[1]
        self.assertRegex(log, r"inside a host: .* shm, the (quick calibration|library's constants)")

    def test_without_times_of_this_situation_the_links_count(self):
        page = self.page()
        page["measured"] = []
        page["gpus"]["links"]["NVLink"] = {"alpha": 4.5e-5, "beta": 1e-9}
        _, log = row_of(self.write("links.json", page), explain="1")
        self.assertIn("45 us and 1 GB/s (NVLink: cuda, measured by `tutti tune`)", log)

    def test_a_switch_that_fails_leaves_the_other_methods(self):
        path = os.path.join(self.folder.name, "no_switch.json")
        done = tutti("tune", "--device", "cuda", "-n", "2", "-e", "8", "--all", "-o", path, FAKE_CUDA_INJECT="no_bind@1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the NVLink switch is not used to fold and multicast", done.stderr)
        self.assertIn("memory cannot be bound to multicast memory", done.stderr)
        with open(path) as file:
            self.assertNotIn("nvls", {row["method"] for row in json.load(file)["measured"]})

    def test_that_of_other_gpus_is_refused(self):
        page = self.page()
        page["gpus"]["models"] = ["NVIDIA B200"]
        path = self.write("other.json", page)
        done = tutti("perf", "all_reduce", "--device", "cuda", "--np", "2", "-b", "8", "-e", "8", TUTTI_PROFILE=path)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, r"other\.json was measured on GPUs NVIDIA B200 \(driver CUDA [\d.]+\); here are Fake H200 "
                                      r"\(driver CUDA [\d.]+\): `tutti tune --device cuda` measures here")
        told = tutti("explain", "all_reduce", "--device", "cuda", TUTTI_PROFILE=path)
        self.assertEqual(told.returncode, 2, told.stdout)
        self.assertIn("was measured on GPUs NVIDIA B200", told.stderr)
        host = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", TUTTI_PROFILE=path)
        self.assertEqual(host.returncode, 0, host.stderr)

    def test_another_driver_is_told(self):
        page = self.page()
        page["gpus"]["driver"] = "570.1, CUDA 12.8"
        _, log = row_of(self.write("driver.json", page))
        self.assertRegex(log, r"measured with driver 570\.1, CUDA 12\.8, and this is CUDA")

    def test_times_of_the_stand_in_replace_none_of_a_machine(self):
        real = self.page()
        real["gpus"]["models"] = ["NVIDIA H200"]
        for name, page in ("real.json", real), ("host.json", {**real, "gpus": None}):
            page = {key: value for key, value in page.items() if value is not None}
            path = self.write(name, page)
            done = tutti("tune", "--device", "cuda", "-n", "2", "-e", "8", "-o", path)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stderr, rf"the GPUs here \(Fake H200\) are those of a stand-in .* {path} has times of a real "
                                          r"machine: name another file by -o")
            with open(path) as file:
                self.assertEqual(json.load(file), page)
        done = tutti("tune", "--device", "cuda", "-n", "2", "-e", "8", XDG_CACHE_HOME=self.folder.name)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("name a file for them by -o", done.stderr)

    def test_hosts_are_refused(self):
        done = tutti("tune", "--device", "cuda", "--hosts", "a,b", "-o", self.path)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--device cuda measures the GPUs of this host", done.stderr)


if __name__ == "__main__":
    unittest.main()
