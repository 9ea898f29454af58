"""tutti plan synth, the plans that it makes drawn over their machine, and tutti topo --weakest."""

import json
import os
import pathlib
import re
import resource
import tempfile
import unittest
import xml.etree.ElementTree

from support import main, tutti

TOPOLOGIES = pathlib.Path(__file__).resolve().parents[1] / "topologies"


class Synth(unittest.TestCase):
    def synth(self, *words, topo="nccl-pcie-2-sockets.xml", env=None):
        return tutti("plan", "synth", *words, "--topo", str(TOPOLOGIES / topo), env=env)

    def test_writes_a_plan_that_is_proven_and_ranks_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.synth("all_gather", "-o", folder + "/a.json", "--json", folder + "/t.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(folder + "/t.json") as file:
                table = json.load(file)
            verified = tutti("plan", "verify", folder + "/a.json")
        self.assertIn("{ranks 0-2 | rank 3}: 10 GB/s cross, 3 blocks must -> >= 80.53 ms/GiB", done.stdout)
        self.assertIn("verified: right for every message size and every timing", done.stdout)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertTrue(table["bound"]["exact"])
        self.assertEqual((table["bound"]["blocks"], table["bound"]["bytes_per_second"]), (3, 10e9))
        made = [row for row in table["algorithms"] if row["made"]]
        self.assertGreater(max(row["of_bound"] for row in made), 0.95)
        self.assertIn("ring", [row["algorithm"] for row in table["algorithms"]])
        rows = re.findall(r"(?m)^([* ]) (\S+) +(\d+) +(\S+) +([\d.]+) +([\d.]+) %  (best|[\d.]+ times as long)(, as it is run)? +\S",
                          done.stdout)
        self.assertEqual(len(rows), len(table["algorithms"]), "columns stand apart")
        self.assertEqual([row[6] for row in rows].count("best"), 1)
        self.assertEqual([row[0] for row in rows if row[7]], ["*"])

    def test_no_file_of_synth_is_left_out_in_silence(self):
        topology = str(TOPOLOGIES / "nccl-8-gpus-8-nics.xml")
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "made.json")
            for arguments, words in ((("--bound", "-o", made), "-o: with --bound no plan is made; leave one of them out"),
                                     (("--bound", "--json", made), "which --bound does not make"),
                                     (("--no-sim", "--json", made), "which --no-sim does not make"),
                                     (("-o", "-", "--json", made), "-o - is the plan and nothing else")):
                done = tutti("plan", "synth", "all_gather", "--topo", topology, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(words, done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_one_rank_needs_no_plan(self):
        for words in (("--ranks", "3"), ("-n", "1"), ("--ranks", "3", "--bound"), ("--ranks", "3", "--sizes")):
            done = self.synth("all_gather", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("one rank sends nothing", done.stderr)

    def test_says_which_plan_is_for_which_size(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.synth("all_reduce", "--sizes", "--json", folder + "/t.json", topo="nccl-8-gpus-8-nics.xml")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(folder + "/t.json") as file:
                sizes = json.load(file)["sizes"]
        self.assertRegex(done.stdout, r"(?m)^  bytes +plan +predicted +% of bound +the catalogue's best")
        self.assertEqual((sizes[0]["from"], sizes[-1]["to"]), (8, 2**30))
        for row, after in zip(sizes, sizes[1:]):
            self.assertEqual(2 * row["to"], after["from"])
        self.assertLessEqual(len({row["plan"] for row in sizes}), 5, "a handful")
        self.assertTrue(sizes[-1]["plan"].startswith("synth@"), "the trees at the bound")
        self.assertFalse(sizes[0]["plan"].startswith("synth@"), "a plan for small calls")
        for row in sizes:
            for end in row["first"], row["last"]:
                self.assertGreater(end["of_bound"], 0)
                self.assertLessEqual(end["of_bound"], 1.0001)
        self.assertRegex(done.stdout, r"two_shot \(nvls\) \d+\n")
        self.assertEqual(sizes[-1]["last"]["catalogue"]["method"], "nvls")
        done = self.synth("all_reduce", "--sizes", "--no-switch", "--json", "-", topo="nccl-8-gpus-8-nics.xml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("(nvls)", done.stdout)
        self.assertNotIn('"nvls"', done.stdout)

    def test_serves_a_part_of_the_ranks(self):
        done = self.synth("all_reduce", "--ranks", "0,2-3", "--no-sim")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("on 3 ranks", done.stdout)
        written = self.synth("all_reduce", "--ranks", "0,2-3", "-o", "-")
        self.assertEqual(json.loads(written.stdout)["ranks"], 3)

    def test_takes_the_topology_of_a_job_whose_hosts_have_cables(self):
        """Ranks that may use two cores each, and figures of pairs of hosts: two cables of host 3 are slow."""
        nodes, links, hosts = [], [], []
        for name in ("a", "b", "c", "d"):
            first = len(nodes)
            hosts.append(first)
            nodes += [{"kind": "host", "name": name}, {"kind": "package", "in": first}, {"kind": "core", "in": first + 1, "number": 0},
                      {"kind": "core", "in": first + 1, "number": 1}, {"kind": "nic", "in": first + 1, "port": 3}]
            links += [{"kind": "cache", "a": first + core, "b": first + 1, "gbps": 50} for core in (2, 3)]
            links.append({"kind": "pci", "a": first + 4, "b": first + 1, "gbps": 12})
        fabric = len(nodes)
        nodes.append({"kind": "fabric"})
        for host, port in zip(hosts, (2.25, 2.25, 3, 1.5)):
            links.append({"kind": "network", "a": host + 4, "b": fabric, "gbps": port})
        figures = [{"between": "hosts", "us": 20, "gbps": 1}]
        for a in range(4):
            for b in range(a):
                figures.append({"between": "hosts", "a": hosts[a], "b": hosts[b], "us": 20, "gbps": 0.25 if a == 3 and b < 2 else 1})
        with tempfile.TemporaryDirectory() as folder:
            topo, plan = folder + "/job.json", folder + "/a.json"
            with open(topo, "w") as file:
                json.dump({"format": "tutti-topology", "version": 1, "nodes": nodes, "links": links, "figures": figures,
                           "ranks": [host + 1 for host in hosts]}, file)
            done = tutti("plan", "synth", "all_gather", "--topo", topo, "--bytes", "8M", "-o", plan, "--json", folder + "/t.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(folder + "/t.json") as file:
                rows = json.load(file)["algorithms"]
            drawn = tutti("plan", "draw", plan, "--topo", topo, "-o", folder + "/a.svg")
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertIn("{ranks 0-2 | rank 3}: 1.5 GB/s cross, 3 blocks must", done.stdout)
        made, other = (max(row["of_bound"] for row in rows if row["made"] is is_made) for is_made in (True, False))
        self.assertGreater(made, 0.9)
        self.assertLess(other, 0.6, "directly, a block takes twice the bound's time over a slow cable")

    def test_draws_the_trees_over_the_machine(self):
        topo = str(TOPOLOGIES / "nccl-pcie-2-sockets.xml")
        with tempfile.TemporaryDirectory() as folder:
            plan, picture = folder + "/a.json", folder + "/a.svg"
            self.assertEqual(self.synth("all_gather", "--no-sim", "-o", plan).returncode, 0)
            done = tutti("plan", "draw", plan, "--topo", topo, "-o", picture)
            self.assertEqual(done.returncode, 0, done.stderr)
            svg = xml.etree.ElementTree.parse(picture).getroot()
            texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
            of_class = lambda name: sum(path.get("class") == name for path in svg.iter("{http://www.w3.org/2000/svg}path"))
            self.assertIn("The cut that binds: {ranks 0-2 | rank 3}: 10 GB/s cross, 3 blocks must -> >= 80.53 ms/GiB (rates: published)", texts)
            self.assertIn("10 · 100 %", texts)  # between the two NUMA nodes
            self.assertIn("4 trees; over the machine: that of block 0", texts)
            self.assertEqual(of_class("tree"), 2 * 3)  # three messages, each on a white ground
            self.assertEqual(of_class("cut"), 2)  # the link, and that of the legend
            strokes = [path.get("stroke") for path in svg.iter("{http://www.w3.org/2000/svg}path")]
            self.assertGreaterEqual(strokes.count("#cf2f26"), 2, "the busiest link has the colour that the legend has for it")
            circles = len(list(svg.iter("{http://www.w3.org/2000/svg}circle")))
            self.assertEqual(circles, 4 + 4 * 4, "ranks on the machine, and of each tree below")
            ways = lambda *words: re.findall(r'class="tree" d="([^"]+)"', tutti("plan", "draw", plan, "--topo", topo, "-o", "-", *words).stdout)
            self.assertEqual(len(ways()), 6)
            self.assertNotEqual(ways(), ways("--tree", "3"))
            for words, why in ((("--tree", "4"), "the plan has 4 trees"), (("--hosts", "2"), "the machine 8")):
                done = tutti("plan", "draw", plan, "--topo", topo, "-o", picture, *words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(why, done.stderr)
        # Of a root that tells all others itself, and hears them: how busy links are, and where messages end.
        def drawn(collective, root):
            done = tutti("plan", "draw", collective, "one_shot", "--topo", topo, "--root", str(root), "-o", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            ends = [float(x) for x in re.findall(r'd="M([\d.]+) [\d.]+ l-4 7 h8 z"', done.stdout)]
            return done.stdout, max(ends) - min(ends)
        for collective in "broadcast", "reduce":
            text, spread = drawn(collective, 3)
            self.assertIn(">10 · 100 %<", text, "three times over the slow link")
            text, spread = drawn(collective, 0)
            self.assertIn(">10 · 80 %<", text, "once over the slow link, and three times over the root's own")
            self.assertEqual(spread < 60, collective == "reduce", spread)
        # A ring of the catalogue: each block goes along a chain, and sums first.
        done = tutti("plan", "draw", "all_reduce", "ring", "--topo", topo, "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(">8 trees; over the machine: that of part 1 of 4<", done.stdout)

    def test_makes_a_plan_for_a_root(self):
        # Only GPU 3 is behind the link of 10 GB/s alone: from there, the buffer must cross it, too.
        with tempfile.TemporaryDirectory() as folder:
            done = self.synth("broadcast", "--root", "3", "--no-sim", "-o", folder + "/a.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(folder + "/a.json") as file:
                ranks = json.load(file)["ranks"]
        self.assertIn("{ranks 0-2 | rank 3}: 10 GB/s cross, the buffer must -> >= 107.4 ms/GiB", done.stdout)
        self.assertIn("TUTTI_ORDER=natural runs it, for root 3 (", done.stdout)
        self.assertEqual(ranks, 4)
        for words, why in ((("all_gather", "--root", "1"), "has no root"), (("reduce", "--root", "4"), "ranks are 0 to 3")):
            done = self.synth(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)

    def test_a_broken_machine_is_slower(self):
        whole, broken = (self.synth("all_gather", "--hosts", "2", "--bound", *words, topo="nccl-8-gpus-8-nics.xml")
                         for words in ([], ["--without", "nic:mlx5_0", "--without", "link:0-4 NVSwitches"]))
        self.assertEqual(broken.returncode, 0, broken.stderr)
        least = [float(re.search(r">= ([\d.]+) ms/GiB", done.stdout)[1]) for done in (whole, broken)]
        self.assertGreater(least[1], 2 * least[0])

    def test_reduces_are_as_near_the_bound_as_broadcasts(self):
        # Ranks are near the root of one tree and far from that of another: no round waits for another tree's.
        done = self.synth("reduce", "--hosts", "2", "--json", "-", topo="nccl-8-gpus-8-nics.xml")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = json.loads(done.stdout[done.stdout.index("{\n"):])
        self.assertGreater(max(row["of_bound"] for row in table["algorithms"] if row["made"]), 0.9)

    def test_a_switch_that_folds_has_a_bound_and_a_plan_of_its_own(self):
        hgx = "nccl-8-gpus-8-nics.xml"
        with tempfile.TemporaryDirectory() as folder:
            plan, table = folder + "/a.json", folder + "/t.json"
            done = self.synth("all_reduce", "-o", plan, "--json", table, topo=hgx)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(table) as file:
                page = json.load(file)
            verified = tutti("plan", "verify", plan)
            self.assertEqual(verified.returncode, 0, verified.stderr)
            drawn = tutti("plan", "draw", plan, "--topo", str(TOPOLOGIES / hgx), "-o", "-")
            self.assertRegex(drawn.stdout, r"The cut that binds: \{rank 0 \| rank 1 \| … \| rank 7\}: [^<]* where ranks alone fold ")
            chosen = self.chosen_of(plan, hgx)
            self.assertEqual(chosen["method"], "nvls", "what the output says runs the plan")
            self.assertAlmostEqual(chosen["seconds"], page["switch"]["model_seconds"], delta=1e-6)
            self.assertNotEqual(self.chosen_of(plan, hgx, TUTTI_NVLS="0")["method"], "nvls")
            trees = self.synth("all_reduce", "-o", plan, "--no-switch", "--no-sim", topo=hgx)
            self.assertNotIn("switch: each rank", trees.stdout)
            trees = self.synth("all_reduce", "--no-switch", "--bytes", "64K", "--json", table, topo=hgx)
            with open(table) as file:
                rows = json.load(file)["algorithms"]
            self.assertEqual({(row["algorithm"], row["written"]) for row in rows if row["made"]}, {("synth", True)})
            self.assertFalse(any(row["written"] for row in rows if not row["made"]))
            self.assertNotEqual(self.chosen_of(plan, hgx)["method"], "nvls", "trees")
        self.assertRegex(done.stdout, r"14 times the buffer must -> .* ms/GiB where ranks alone fold \(rates: published\)")
        self.assertTrue(page["bound"]["certificate"].endswith("where ranks alone fold (rates: published)"), page["bound"])
        self.assertIn("{rank 0 | ranks 1-7}: 370.8 GB/s cross, the buffer must -> >= 2.896 ms/GiB where switches fold (rates: published)",
                      done.stdout)
        self.assertIn("a switch reaches it; nvls sends 9/8 of the buffer over each link, so it has at most 88.9 % of this", done.stdout)
        self.assertRegex(done.stdout, r"switch: each rank folds a part of the buffer and sends it to all \(two_shot\)")
        self.assertRegex(done.stdout, r"Of the cost model, not simulated;\s+no switch was measured. So the plan is the one that nvls runs")
        self.assertNotRegex(done.stdout, r"(?m)^\*")  # the table has no row of what is written
        self.assertEqual({(row["algorithm"], row["written"]) for row in page["algorithms"] if row["made"]}, {("trees", False)})
        self.assertRegex(done.stdout, r"(?m)^  trees +\d+ ")
        self.assertIn("The simulator knows no switch that folds", done.stdout)
        self.assertTrue(page["switch"]["taken"])
        self.assertAlmostEqual(page["switch"]["of_bound"], 0.82 * 8 / 9, delta=0.01)
        self.assertLess(page["switch"]["model_seconds"], page["switch"]["trees_model_seconds"])
        self.assertLess(page["switch"]["model_seconds"], page["bound"]["seconds"], "ranks alone that fold are slower")
        self.assertGreater(page["switch"]["model_seconds"], page["bound_where_switches_fold"]["seconds"])

    def chosen_of(self, plan, topo, **env):
        """Of a communicator with this plan."""
        done = tutti("explain", "all_reduce", "--bytes", "1G", "--topo", str(TOPOLOGIES / topo), "--device", "cuda", "--json",
                     env={"TUTTI_PLAN": plan, "TUTTI_ORDER": "natural", **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["candidates"][0]

    def test_switches_that_fold_of_parts_of_machines(self):
        hgx = "nccl-8-gpus-8-nics.xml"
        some = self.synth("all_reduce", "--ranks", "0-3", "--no-sim", topo=hgx)
        self.assertIn("{rank 0 | ranks 1-3}: 370.8 GB/s cross, the buffer must -> >= 2.896 ms/GiB where switches fold", some.stdout)
        self.assertIn("at most 80.0 % of this", some.stdout)
        self.assertRegex(some.stdout, r"switch: each rank folds|switch: nvls")
        two = self.synth("all_reduce", "--ranks", "0-1", "--no-sim", topo=hgx)
        self.assertIn("So the plan is that of the trees: nvls is no faster", two.stdout)
        hosts = self.synth("all_reduce", "--hosts", "2", "--no-sim", topo=hgx)
        self.assertEqual(hosts.stdout.count("  bound: {"), 2)
        self.assertIn("no schedule reaches it; nvls cannot run here (the ranks are of several hosts)", hosts.stdout)
        self.assertIn("switch: nvls cannot run an all-reduce here (the ranks are of several hosts): trees alone", hosts.stdout)

    def test_says_why_a_switch_that_folds_is_not_used(self):
        done = self.synth("all_reduce", "--no-sim", topo="nccl-8-gpus-8-nics.xml", env={"TUTTI_REPRODUCIBLE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("switch: nvls cannot run an all-reduce here (it cannot fold sum of f32): trees alone", done.stdout)

    def test_a_spine_of_leaf_switches_folds_too(self):
        """Four GPUs, each on a switch of its own, which a fifth joins: no single link of a GPU is known to bind."""
        nodes = [{"kind": "host"}, {"kind": "numa", "in": 0}, {"kind": "nvswitch", "in": 0}]
        links = []
        for gpu in range(4):
            leaf = len(nodes)
            nodes += [{"kind": "nvswitch", "in": 0}, {"kind": "gpu", "in": 1, "number": gpu, "sm": 90}]
            links += [{"kind": "pci", "a": leaf + 1, "b": 1, "gbps": 24, "us": 1}]
            links += [{"kind": "nvlink", "a": leaf, "b": to, "gbps": 100, "us": 0.3} for to in (leaf + 1, 2)]
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/leaves.json", "w") as file:
                json.dump({"format": "tutti-topology", "version": 1, "nodes": nodes, "links": links}, file)
            done = self.synth("all_reduce", "--no-sim", topo=folder + "/leaves.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(">= 10.74 ms/GiB where switches fold", done.stdout)
        self.assertIn("a lower bound: it may be that no schedule reaches it\n", done.stdout)
        self.assertNotIn("at most 80.0 %", done.stdout)
        self.assertLessEqual(float(re.search(r"([\d.]+) % of its bound", done.stdout)[1]), 100)

    def test_no_switch_folds(self):
        hgx = "nccl-8-gpus-8-nics.xml"
        for done in (tutti("plan", "synth", "all_reduce", "--topo", str(TOPOLOGIES / hgx), "--bound", env={"TUTTI_NVLS": "0"}),
                     self.synth("all_gather", "--bound", topo=hgx), self.synth("all_reduce", "--bound")):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("  bound: {"), 1)
            self.assertNotIn("switch", done.stdout)
            self.assertNotIn("alone fold", done.stdout)
        self.assertEqual(self.synth("all_reduce", "--bound", topo=hgx).stdout.count("  bound: {"), 2)

    def test_weakest_has_one_bound_for_all_rows(self):
        done = tutti("topo", "--import", str(TOPOLOGIES / "nccl-8-gpus-8-nics.xml"), "--weakest", "--collective", "all_reduce")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^of nvls, at best: \{rank 0 \| ranks 1-7\}: .* where switches fold")
        ranks = float(re.search(r"at best: \{rank 0 \| rank 1 .*>= ([\d.]+) ms/GiB where ranks alone fold", done.stdout)[1])
        times = float(re.search(r"(?m)^with the catalogue: ([\d.]+) times, two_shot \(nvls\)$", done.stdout)[1])
        self.assertAlmostEqual(times * ranks, 3.982, delta=0.03, msg="in times of the first bound, as all that the table has")
        self.assertIn("The bound is that where ranks alone fold: nvls may be faster, by which switches fold.", done.stdout)
        for words, env in ((["--hosts", "2"], {}), ([], {"TUTTI_NVLS": "0"})):
            done = tutti("topo", "--import", str(TOPOLOGIES / "nccl-8-gpus-8-nics.xml"), "--weakest", "--collective", "all_reduce", *words, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("nvls", done.stdout)

    def test_says_what_is_wrong(self):
        for words, why in ((["all_gather", "--ranks", "0,9"], "there are 4 ranks"),
                           (["all_gather", "--ranks", "2,1"], "not ascending"),
                           (["all_gather", "--ranks", "a"], "is no rank"),
                           (["all_to_all"], "cannot be synthesised"),
                           (["gather", "--bound"], "no bound is known"),
                           (["all_gather", "--without", "gpu:9"], "there are GPU 0"),
                           (["all_gather", "-n", "8"], "share GPU 0")):
            done = self.synth(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(why, done.stderr)
        for text in "", "<system", '{"format": "tutti-plan"}':
            with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
                file.write(text)
                file.flush()
                self.assertNotEqual(tutti("plan", "synth", "all_gather", "--topo", file.name).returncode, 0)

    def test_names_the_weakest_link(self):
        done = tutti("topo", "--import", str(TOPOLOGIES / "nccl-pcie-2-sockets.xml"), "--weakest")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ +apart +- +10 +1  NUMA node 0 - NUMA node 1$")

    def test_weakest_links_cost_the_catalogue_more(self):
        topo = ("--import", str(TOPOLOGIES / "nccl-8-gpus-8-nics.xml"), "--hosts", "2")
        done = tutti("topo", *topo, "--weakest")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^with the catalogue: [\d.]+ times, \w+$")
        rows = re.findall(r"(?m)^ +([\d.]+) times  (?:([\d.]+) times, \w+|none) +[\d.]+ +\d+  \S", done.stdout)
        self.assertEqual(len(rows), 4, done.stdout)
        for at_best, catalogue in rows:
            self.assertGreaterEqual(float(catalogue or "inf"), 0.99 * float(at_best), "no schedule is faster than the bound")
        self.assertEqual([at_best for at_best, catalogue in rows if not catalogue], ["1.13"], "only by NVLink and the NICs of others")
        forced = tutti("topo", *topo, "--weakest", env={"TUTTI_ALGO": "all_gather:ring"})
        self.assertEqual(forced.stdout, done.stdout, "what the environment demands does not count")

    def test_a_graph_of_ten_thousand_nodes(self):
        """Within 2 GiB, the default of --memory: what stands beside the ranks, and what lies between them, is found its way through; too
        many ranks, and too much between them, is an error."""
        def chain(folder, count):
            nodes = [{"kind": "host", "name": "h"}] + [{"kind": "numa", "in": 0}] * count + [{"kind": "gpu", "in": 1, "number": i} for i in range(4)]
            links = [{"kind": "socket", "a": 1 + i, "b": 2 + i, "gbps": 20} for i in range(count - 1)]
            links += [{"kind": "pci", "a": count + 1 + i, "b": 1 + i * (count - 1) // 3, "gbps": 24} for i in range(4)]
            with open(folder + "/chain.json", "w") as file:
                json.dump({"format": "tutti-topology", "version": 1, "nodes": nodes, "links": links}, file)
            return folder + "/chain.json"
        def written(folder, ranks, beside):
            nodes = [{"kind": "host", "name": "h"}, {"kind": "numa", "in": 0}]
            nodes += [{"kind": "gpu", "in": 1, "number": i} for i in range(ranks)]
            nodes += [{"kind": "core", "in": 1, "number": i} for i in range(beside)]
            links = [{"kind": "pci", "a": 2 + i, "b": 1, "gbps": 24} for i in range(ranks)]
            links += [{"kind": "cache", "a": 2 + ranks + i, "b": 1, "gbps": 24} for i in range(beside)]
            with open(folder + "/large.json", "w") as file:
                json.dump({"format": "tutti-topology", "version": 1, "nodes": nodes, "links": links}, file)
            return folder + "/large.json"
        with tempfile.TemporaryDirectory() as folder:
            done = self.synth("all_gather", "--no-sim", topo=written(folder, 4, 9994))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("on 4 ranks", done.stdout)
            done = self.synth("all_gather", "--no-sim", topo=chain(folder, 9995))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("{rank 0 | ranks 1-3}: 20 GB/s cross, 3 blocks must", done.stdout)
            done = self.synth("all_gather", "--no-sim", topo=chain(folder, 17000))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the ranks' links join more than 16384 nodes", done.stderr)
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 2 * 2**20, "KiB")
            for words in ("plan", "synth", "all_gather", "--topo"), ("topo", "--weakest", "--import"):
                done = tutti(*words, written(folder, 9998, 0))
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"9,?998.*512|512.*9,?998")


if __name__ == "__main__":
    main()
