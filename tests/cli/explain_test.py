"""tutti explain: the table of candidates, on this machine and on imported ones."""

import json
import os
import re
import tempfile
import unittest

from support import main, tutti

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies")
HERE = {"TUTTI_PROFILE": "off"}


def explained(*arguments, env=None):
    done = tutti("explain", *arguments, "--json", env={**HERE, **(env or {})})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Explain(unittest.TestCase):
    def test_prints_every_candidate_with_the_parts_of_its_time(self):
        one_cache = {**HERE, "HWLOC_SYNTHETIC": "package:1 l3:1 core:8 pu:1"}
        done = tutti("explain", "all_reduce", "--bytes", "1M", "-n", "8", env=one_cache)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  algorithm +method +predicted +latency +bandwidth +reduction +measured +of bound  verdict")
        self.assertRegex(done.stdout, r"(?m)^\* \w+ +lanes( +[\d.]+){4} +- +[\d.]+ %  chosen$")
        self.assertRegex(done.stdout, r"(?m)^  hierarchical +lanes( +-){6}  rejected: all ranks are in one group")
        page = explained("all_reduce", "--bytes", "1M", "-n", "8")
        for row in page["candidates"]:
            if "seconds" in row:
                self.assertAlmostEqual(row["seconds"], row["latency"] + row["bandwidth"] + row["reduction"])
        self.assertGreater(len(page["candidates"]), 8)

    def test_says_which_part_of_the_bound_each_candidate_reaches(self):
        topology = ("--topo", os.path.join(SAMPLES, "nccl-pcie-2-sockets.xml"))
        page = explained("all_gather", "--bytes", "1G", *topology)
        self.assertAlmostEqual(page["bound"]["seconds"], 0.75 * 2**30 / 10e9, places=4)
        self.assertTrue(page["bound"]["exact"])
        for row in page["candidates"]:
            if "seconds" in row:
                self.assertAlmostEqual(row["of_bound"], page["bound"]["seconds"] / row["seconds"])
        self.assertNotIn("bound", explained("barrier", *topology))
        several = {"HWLOC_SYNTHETIC": "package:1 l3:1 core:2 pu:1"}
        self.assertNotIn("bound", explained("all_gather", "-n", "3", env=several), "ranks share a core")

    def test_prices_a_call_with_its_root(self):
        """Plans are made for root 0. A communicator chooses for all roots at once, by the mean of their prices."""
        topology = ("--bytes", "1G", "--synth", "--topo", os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml"), "--hosts", "2")
        def price(*root):
            page = explained("broadcast", *topology, *root)
            row = next(row for row in page["candidates"] if row["algorithm"].startswith("synth@"))
            self.assertLessEqual(row["of_bound"], 1.0001)
            return row["seconds"]
        first, other, any_root = price("--root", "0"), price("--root", "3"), price()
        self.assertLess(first, any_root)
        self.assertLess(any_root, other)
        done = tutti("explain", "all_reduce", "--root", "3", "-n", "4", env=HERE)
        self.assertEqual((done.returncode, "all_reduce has no root" in done.stderr), (2, True), done.stderr)
        done = tutti("explain", "broadcast", "--root", "4", "-n", "4", env=HERE)
        self.assertEqual((done.returncode, "--root 4: ranks are 0 to 3" in done.stderr), (2, True), done.stderr)

    def test_prices_plans_made_for_a_machine(self):
        topology = ("--topo", os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml"), "--hosts", "2")
        page = explained("all_gather", "--bytes", "1G", "--synth", *topology)
        self.assertTrue(page["candidates"][0]["synthesised"])
        self.assertRegex(page["candidates"][0]["algorithm"], r"^synth@[0-9a-f]{16}$")
        self.assertGreater(page["candidates"][0]["of_bound"], 0.95, "its near and far links work at the same time")
        page = explained("broadcast", "--bytes", "1G", "--synth", *topology)
        self.assertEqual(page["candidates"][0]["algorithm"], "hierarchical", "for a root elsewhere its trees lie across the network")
        done = tutti("explain", "broadcast", "--bytes", "1G", "--synth", *topology, env=HERE)
        self.assertRegex(done.stdout, r"(?m)^  synth@[0-9a-f]{16}: a plan synthesised for these ranks on this machine, [\d.]+ % "
                                      r"of the bound$")
        self.assertEqual(len(set(re.findall(r"(?m)^  (synth\S*): a plan", done.stdout))),
                         len(re.findall(r"(?m)^  (synth\S*): a plan", done.stdout)), "each once")
        forced = explained("broadcast", "--bytes", "8", "--synth", *topology, env={"TUTTI_ALGO": "broadcast:synth"})
        self.assertTrue(forced["candidates"][0]["algorithm"].startswith("synth@"))
        cores = ("-n", "4")
        without = tutti("explain", "broadcast", *cores, env={**HERE, "TUTTI_ALGO": "broadcast:synth"})
        self.assertNotEqual(without.returncode, 0)
        self.assertRegex(without.stderr, "no plan is kept for these 4 ranks on this topology: `tutti tune --synth` makes")

    def test_a_demand_that_gpus_cannot_meet_is_a_note(self):
        topology = ("--topo", os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml"))
        page = explained("broadcast", "--bytes", "8", *topology, env={"TUTTI_ALGO": "broadcast:synth_tree,all_gather:synth"})
        self.assertRegex(page["candidates"][0]["verdict"], "chosen")
        notes = [note for note in page["notes"] if "TUTTI_ALGO" in note]
        self.assertEqual(len(notes), 1, page["notes"])
        self.assertRegex(notes[0], r"^TUTTI_ALGO=broadcast:synth_tree is not used by calls on memory of GPUs: no plan is kept for these 8 "
                                   r"ranks on the GPUs of this topology\. TUTTI_SYNTH=auto makes plans")
        page = explained("broadcast", "--bytes", "8", "--synth", *topology, env={"TUTTI_ALGO": "broadcast:synth"})
        self.assertEqual([note for note in page.get("notes", []) if "TUTTI_ALGO" in note], [], "it is used")

    def test_a_machine_without_a_part_has_other_costs(self):
        topology = ("--topo", os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml"))
        fastest = lambda *words: explained("all_gather", "--bytes", "256M", *topology, *words)["candidates"][0]["seconds"]
        self.assertGreater(fastest("--without", "link:0-4 NVSwitches"), 2 * fastest(), "GPU 0 is reached by PCIe alone")
        made = fastest("--synth", "--without", "link:0-4 NVSwitches")
        self.assertLessEqual(made, fastest("--without", "link:0-4 NVSwitches"), "a plan for what is left is a candidate")
        page = explained("all_gather", *topology, "--without", "gpu:0")
        self.assertEqual(page["ranks"], 7)
        done = tutti("explain", "all_gather", *topology, "--without", "nic:none", env=HERE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there are", done.stderr)

    def test_groups_ranks_by_the_caches_of_a_host(self):
        caches = {"HWLOC_SYNTHETIC": "package:2 l3:2 core:4 pu:1"}
        page = explained("all_to_all", "--bytes", "64K", "-n", "16", env=caches)
        self.assertEqual(page["hosts"], 1)
        self.assertLess(page["inside"]["alpha"], page["between"]["alpha"])
        hierarchical = next(row for row in page["candidates"] if row["algorithm"] == "hierarchical")
        self.assertIn("seconds", hierarchical, hierarchical["verdict"])
        done = tutti("explain", "all_to_all", "--bytes", "64K", "-n", "16", env={**HERE, **caches})
        self.assertRegex(done.stdout, r"(?m)^  inside a group: .*same core complex")
        self.assertRegex(done.stdout, r"(?m)^  between groups: .*across sockets")
        given = explained("all_to_all", "--bytes", "64K", "-n", "16", env={**caches, "TUTTI_GROUPS": "16"})
        hierarchical = next(row for row in given["candidates"] if row["algorithm"] == "hierarchical")
        self.assertEqual(hierarchical["verdict"], "rejected: all ranks are in one group, so there is nothing to gain from groups")
        one_cache = {"HWLOC_SYNTHETIC": "package:1 l3:1 core:16 pu:1", "TUTTI_GROUPS": "4"}
        given = explained("all_to_all", "--bytes", "64K", "-n", "16", env=one_cache)
        self.assertIn("seconds", next(row for row in given["candidates"] if row["algorithm"] == "hierarchical"))
        wrong = tutti("explain", "all_to_all", "-n", "16", env={**HERE, "TUTTI_GROUPS": "0,0,1"})
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("TUTTI_GROUPS", wrong.stderr)
        wrong = tutti("explain", "all_to_all", "-n", "4", env={**HERE, "TUTTI_ORDER": "0,1,2,2"})
        self.assertNotEqual(wrong.returncode, 0, "a job would fail, too")

    def test_what_is_forced_and_cannot_be_used_is_the_error_of_a_communicator(self):
        for json_too in (), ("--json",):
            done = tutti("explain", "all_reduce", "-n", "4", *json_too, env={**HERE, "HWLOC_SYNTHETIC": "package:1 l3:1 core:8 pu:1",
                                                                             "TUTTI_ALGO": "all_reduce:hierarchical"})
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("TUTTI_ALGO forces all_reduce:hierarchical, which cannot be used on 4 ranks: all ranks are in one group",
                          done.stderr)
            self.assertIn("TUTTI_ALGO forces hierarchical", done.stdout, "the table is there too")

    def test_says_why_no_gpu_is_seen(self):
        done = tutti("explain", "all_reduce", "--device", "cuda", "-n", "4", env=HERE)
        if done.returncode == 0:
            self.skipTest("this machine has a GPU")
        self.assertRegex(done.stderr, r"no GPU is seen here: .*\w+; --topo FILE tells of another machine")

    def test_says_what_has_no_part_in_the_table(self):
        gpus = ("--topo", os.path.join(SAMPLES, "nccl-pcie-2-sockets.xml"))
        notes = lambda *words, env=None: " ".join(explained("all_reduce", *words, env=env).get("notes", []))
        self.assertIn("6 ranks on 4 GPUs: some share one", notes(*gpus, "-n", "6"))
        self.assertNotIn("some share one", notes(*gpus))
        self.assertIn("--device host is not used", notes(*gpus, "--device", "host"))
        self.assertNotIn("--device", notes(*gpus))
        self.assertIn("TUTTI_METHOD=nvls is not used: no candidate for all_reduce runs by nvls", notes(*gpus, env={"TUTTI_METHOD": "nvls"}))
        self.assertEqual(notes(*gpus, env={"TUTTI_METHOD": "get"}), notes(*gpus), "which chooses")
        self.assertIn("TUTTI_METHOD forces nvls, a method of GPUs", notes("-n", "2", env={"TUTTI_METHOD": "nvls"}))
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "ring.json")
            self.assertEqual(tutti("plan", "export", "all_gather", "ring", "-n", "2", "-o", made).returncode, 0)
            self.assertIn(f"TUTTI_PLAN={made} is not used: it has no plan for all_reduce of 2 ranks",
                          notes("-n", "2", env={"TUTTI_PLAN": made}))
            page = explained("all_gather", "-n", "2", env={"TUTTI_PLAN": made})
            self.assertTrue(page["candidates"][0]["algorithm"].startswith("ring@"), page["candidates"][0])
            self.assertNotIn("TUTTI_PLAN", " ".join(page.get("notes", [])))

    def test_number_of_ranks_has_two_names(self):
        self.assertEqual(explained("all_reduce", "--np", "3"), explained("all_reduce", "-n", "3"))

    def test_the_standard_output_is_a_file(self):
        call = ("explain", "all_reduce", "-n", "2")
        self.assertEqual(json.loads(tutti(*call, "-o", "-", env=HERE).stdout), json.loads(tutti(*call, "--json", env=HERE).stdout))

    def test_nvlink_needs_a_topology(self):
        done = tutti("explain", "all_reduce", "--nvlink", "300", env=HERE)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--nvlink: give the topology too, by --topo", done.stderr)

    def test_names_the_row_of_the_chosen_one(self):
        done = tutti("explain", "all_reduce", "--bytes", "1M", "-n", "2", env=HERE)
        self.assertRegex(done.stdout, r"(?m)^  chosen: \w+ by lanes, (one round|rounds of \d+\w?); messages: ")
        chosen = explained("all_reduce", "--bytes", "1M", "-n", "2")["candidates"][0]
        self.assertEqual(chosen["method"], "lanes")
        self.assertEqual(chosen["width"], 1)
        self.assertGreater(chosen["window"], 0)

    def test_makes_the_choices_of_a_job_from_its_topology(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/job.json"
            counts = {"all_reduce": 262144, "all_gather": 4096, "broadcast": 4194304}
            for collective, size in (("all_reduce", "1M"), ("all_gather", "64K"), ("broadcast", "16M")):
                done = tutti("perf", collective, "--np", "2", "-t", "2", "-b", size, "-e", size, "-n", "1", "-w", "0", "-c", "0",
                             env={**HERE, "TUTTI_EXPLAIN": "1", "TUTTI_TOPO_DUMP_FILE": path, "TUTTI_LOG": "info"})
                self.assertEqual(done.returncode, 0, done.stderr)
                logged = re.search(rf"why {collective}\(count={counts[collective]},[^\n]*\n((?:[ *] [^\n]*\n)+)", done.stderr)
                self.assertIsNotNone(logged, done.stderr)
                again = tutti("explain", collective, "--bytes", size, "--topo", path, env=HERE)
                self.assertEqual(again.returncode, 0, again.stderr)
                for line in logged[1].splitlines():
                    self.assertIn(line, again.stdout)
                self.assertIn("chosen: ", logged[1])

    def test_prices_the_bytes_that_are_asked_for(self):
        def ring(size):
            page = explained("all_reduce", "--bytes", size, "-n", "4")
            return next(row["bandwidth"] for row in page["candidates"] if row["algorithm"] == "ring")
        self.assertAlmostEqual(ring("768M") / ring("1G"), 0.75)
        self.assertAlmostEqual(ring("1000000") / ring("1M"), 1000000 / (1 << 20))

    def test_is_written_to_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/table.json"
            done = tutti("explain", "all_reduce", "-n", "4", "-o", path, env=HERE)
            self.assertRegex(done.stdout, r"(?m)^\* \w+ .* chosen$")
            with open(path) as file:
                self.assertEqual(json.load(file), explained("all_reduce", "-n", "4"))
            done = tutti("explain", "all_reduce", "-n", "4", "-o", folder + "/table.txt", env=HERE)
            self.assertEqual(done.returncode, 2)
            self.assertIn("its ending says what is written: FILE.json the same", done.stderr)

    def test_says_that_a_file_leaves_nvlink_out_and_takes_it_as_told(self):
        file = os.path.join(SAMPLES, "nccl-pcie-2-sockets.xml")
        over_pcie = explained("all_reduce", "--bytes", "1G", "--topo", file)
        self.assertIn("no NVLink between the 4 GPUs of ", over_pcie["notes"][0])
        self.assertIn("  note: no NVLink between", tutti("explain", "all_reduce", "--topo", file, env=HERE).stdout)
        self.assertIn("  note: no NVLink between", tutti("sim", "all_reduce", "--bytes", "1M", "--topo", file).stdout)
        told = explained("all_reduce", "--bytes", "1G", "--topo", file, "--nvlink", "300")
        self.assertNotIn("notes", told)
        self.assertAlmostEqual(told["inside"]["beta"], 1 / 300e9)
        self.assertLess(told["candidates"][0]["seconds"], over_pcie["candidates"][0]["seconds"] / 10)
        known = os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml")
        done = tutti("explain", "all_reduce", "--topo", known, "--nvlink", "300", env=HERE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("are known already; leave it out", done.stderr)

    def test_a_barrier_has_no_size(self):
        self.assertRegex(tutti("explain", "barrier", "-n", "4").stdout, r"^barrier on 4 ranks, this machine")

    def test_says_what_the_environment_rules_out(self):
        page = explained("all_reduce", "-n", "4", env={"TUTTI_REPRODUCIBLE": "1"})
        reasons = {row["algorithm"]: row["verdict"] for row in page["candidates"]}
        self.assertIn("another order than the canonical one", reasons["ring"])
        page = explained("all_reduce", "-n", "4", env={"TUTTI_ALGO": "all_reduce:swing"})
        self.assertEqual(page["candidates"][0]["algorithm"], "swing")
        self.assertEqual({row["verdict"] for row in page["candidates"][1:]}, {"rejected: TUTTI_ALGO forces swing"})

    def test_predicts_what_eight_gpus_behind_switches_reach(self):
        """A model of unit costs (src/topo/constants.def), not measured; the bounds are what such machines are known to reach."""
        hgx = os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml")
        for size, at_least, at_most in (("8", 4e-6, 7e-6), ("64K", 6e-6, 12e-6), ("1M", 10e-6, 20e-6)):
            chosen = explained("all_reduce", "--bytes", size, "-n", "8", "--topo", hgx, "--device", "cuda")["candidates"][0]
            self.assertTrue(at_least <= chosen["seconds"] <= at_most, (size, chosen))
        for switch, method, least in (("1", "nvls", 440e9), ("0", "get", 350e9)):
            page = explained("all_reduce", "--bytes", "256M", "-n", "8", "--topo", hgx, "--device", "cuda", env={"TUTTI_NVLS": switch})
            large = page["candidates"][0]
            self.assertEqual("where ranks alone fold" in page["bound"]["certificate"], method == "nvls", page["bound"])
            self.assertEqual(large["method"], method)
            self.assertTrue(least <= 256 * 2**20 * 2 * 7 / 8 / large["seconds"] <= 500e9, large)
            self.assertTrue(0.7 <= large["of_bound"] <= 1, large)  # of nvls: of the bound where switches fold
        pair = explained("broadcast", "--bytes", "256M", "-n", "2", "--topo", hgx, "--device", "cuda")["candidates"][0]
        self.assertGreaterEqual(256 * 2**20 / pair["seconds"], 200e9)

    def test_takes_links_from_a_topology(self):
        topology = os.path.join(SAMPLES, "nccl-8-gpus-8-nics.xml")
        page = explained("all_reduce", "--bytes", "1G", "--topo", topology, "--hosts", "4")
        self.assertEqual((page["ranks"], page["hosts"], page["rails"]), (32, 4, 8))
        self.assertEqual((page["inside"]["kind"], page["between"]["kind"]), ("NVSwitch", "network"))
        self.assertAlmostEqual(1e-9 / page["between"]["beta"], 47, delta=1)
        done = tutti("explain", "all_reduce", "-n", "3", "--topo", topology, "--hosts", "4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("3 ranks are too few for 4 hosts", done.stderr)

    def test_a_communicator_logs_the_same_choice(self):
        env = {"TUTTI_EXPLAIN": "1", **HERE}
        done = tutti("perf", "all_reduce", "-t", "2", "-b", "8", "-e", "8", "-n", "3", "-c", "0", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("why all_reduce(count=2, "), 1, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^\* one_shot .*chosen$")
        quiet = tutti("perf", "all_reduce", "-t", "2", "-b", "8", "-e", "8", "-n", "3", "-c", "0", env=HERE)
        self.assertNotIn("why all_reduce", quiet.stderr)

    def test_names_a_wrong_word(self):
        for arguments, words in ((("alreduce",), "did you mean all_reduce?"), (("all_reduce", "--bytes", "x"), "--bytes x"),
                                 (("all_reduce", "--topo", "/no/such.xml"), "/no/such.xml")):
            done = tutti("explain", *arguments, env=HERE)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    main()
