"""tutti plan: list, show, verify, draw, export, import, synth; TUTTI_PLAN; tutti topo --weakest."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from support import TUTTI, main, tutti


class Plan(unittest.TestCase):
    def test_no_file_of_synth_is_left_out_in_silence(self):
        topology = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies", "nccl-8-gpus-8-nics.xml")
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

    def test_lists_every_algorithm_with_its_cost(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("plan", "list", "-n", "4", "--json", folder + "/list.json")
            with open(folder + "/list.json") as file:
                rows = json.load(file)
        self.assertEqual(done.returncode, 0, done.stderr)
        ring = [row for row in rows if (row["collective"], row["algorithm"]) == ("all_reduce", "ring")]
        self.assertEqual([(row["rounds"], row["sent"], row["reproducible"]) for row in ring], [(6, 1.5, False)])
        self.assertEqual({row["ranks"] for row in rows}, {"any", "groups"})
        self.assertRegex(done.stdout, r"all_reduce +ring +any +6 +3/2 +3/2 +3/4 ")

    def test_shows_the_steps_of_a_rank(self):
        done = tutti("plan", "show", "all_reduce", "ring", "-n", "3", "--rank", "1")
        for other in ["ring", "all_reduce"], ["MPI_Allreduce", "ring"], ["ring"]:  # the order of before; other names
            self.assertEqual(tutti("plan", "show", *other, "-n", "3", "--rank", "1").stdout, done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("complete out[2/3] = <0 + in[2/3]", done.stdout)
        self.assertNotIn("rank 2\n", done.stdout)

    def test_verifies_and_counts(self):
        done = tutti("plan", "verify", "rabenseifner", "all_reduce", "-n", "13")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is right, for every message size and every timing", done.stdout)
        self.assertIn("The cost that the algorithm claims is what was counted.", done.stdout)
        self.assertRegex(done.stdout, r"reproducible order +yes")

    def test_draws_a_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("plan", "draw", "circulant", "all_reduce", "-n", "6", "-o", folder + "/c.svg")
            picture = xml.etree.ElementTree.parse(folder + "/c.svg").getroot()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("svg", picture.tag)

    def test_supports_groups(self):
        uneven = ("all_reduce", "-n", "5", "--groups", "0,0,1,1,1")
        done = tutti("plan", "show", "hierarchical", *uneven, "--rank", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("hierarchical all_reduce on 5 ranks in groups 0,0,1,1,1: ", done.stdout)
        self.assertIn("fold scratch[0-1/4] = in[0-1/4] + <3 + <4", done.stdout)
        done = tutti("plan", "verify", "hierarchical", *uneven)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("The cost that the algorithm claims is what was counted.", done.stdout)
        self.assertRegex(tutti("plan", "list", "-n", "8", "--groups", "4").stdout, r"all_reduce +hierarchical +groups +4 +7/4 ")
        self.assertRegex(tutti("plan", "list", "-n", "8").stdout, r"all_reduce +hierarchical +groups +- ")
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("plan", "draw", "hierarchical", *uneven, "-o", folder + "/h.svg")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("svg", xml.etree.ElementTree.parse(folder + "/h.svg").getroot().tag)
            path = folder + "/h.json"
            self.assertEqual(tutti("plan", "export", "hierarchical", *uneven, "-o", path).returncode, 0)
            self.assertIn("on 5 ranks is right", tutti("plan", "verify", path).stdout)

    def test_exported_plans_can_be_imported_shown_verified_and_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, again, picture = (os.path.join(folder, name) for name in ("mine.json", "again.json", "mine.svg"))
            self.assertEqual(tutti("plan", "export", "swing", "all_reduce", "-n", "6", "-o", mine).returncode, 0)
            with open(mine) as file:
                self.assertEqual(json.load(file)["format"], "tutti-plan")
            done = tutti("plan", "import", mine, "-o", again)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("swing all_reduce on 6 ranks is right", done.stdout)
            self.assertRegex(done.stdout, r"hash +[0-9a-f]{16}\n")
            self.assertIn(f"TUTTI_PLAN={again} runs it", done.stdout)
            with open(mine) as first, open(again) as second:
                text = first.read()
                self.assertEqual(text, second.read())
            for arguments in (("show", mine, "--rank", "5"), ("verify", mine), ("draw", mine, "-o", picture)):
                done = tutti("plan", *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(tutti("plan", "export", "swing", "-n", "6").stdout, text)

            with open(mine, "w") as file:
                file.write(text.replace('"peers": [1]', '"peers": [2]', 1))
            done = tutti("plan", "verify", mine)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("swing all_reduce on 6 ranks is WRONG: rank ", done.stdout)
            done = tutti("plan", "import", mine)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the plans are wrong: rank ", done.stderr)

    def test_standard_output_equals_the_file(self):
        text = tutti("plan", "export", "ring", "-n", "3").stdout
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ring.json")
            for arguments in (("export", "ring", "-n", "3", "-o", "-"), ("export", "ring", "-n", "3", "-o", path),
                              ("export", path, "-o", "-"), ("import", path, "-o", "-"),
                              ("draw", path, "-o", "-"), ("list", "--json", "-")):
                done = subprocess.run([TUTTI, "plan", *arguments], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(os.listdir(folder).count("-"), 0)
                if arguments[0] == "draw":
                    self.assertIn("svg", xml.etree.ElementTree.fromstring(done.stdout).tag)
                elif arguments[0] == "list":
                    self.assertIn("ring", [row["algorithm"] for row in json.loads(done.stdout)])
                elif arguments[-1] == "-":
                    self.assertEqual(json.loads(done.stdout)["plans"], json.loads(text)["plans"])
                with open(path, "w") as file:
                    file.write(text)

    def test_tells_what_is_too_large_to_prove_from_what_is_wrong(self):
        """By its memory limit, which is not in force under a sanitizer."""
        with open(TUTTI, "rb") as binary:
            contents = binary.read()
        if b"__asan_init" in contents or b"__tsan_init" in contents:
            self.skipTest("a sanitizer's own memory would count")
        for ranks, says in ("96", "not proven: the plans are too large to prove: memory ran out"), ("512", "takes more memory"):
            done = tutti("plan", "verify", "ring", "-n", ranks, "--memory", "3M")
            self.assertEqual(done.returncode, 1)
            self.assertNotIn("WRONG", done.stdout + done.stderr)
            self.assertIn(says, done.stderr)
            self.assertIn("--memory", done.stderr)
        done = tutti("plan", "export", "ring", "-n", "512", "--memory", "3M")
        self.assertIn("takes more memory than the 3M that --memory allows", done.stderr)
        self.assertEqual(tutti("plan", "verify", "ring", "-n", "96").returncode, 0)
        self.assertIn("--memory", tutti("plan", "verify", "ring", "--memory", "many").stderr)

    def test_warns_of_an_export_too_large_to_import(self):
        done = tutti("plan", "export", "pairwise", "all_to_all", "-n", "700", "-o", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"on 700 ranks takes \d+ bytes of text; .* read at most 67108864")
        self.assertEqual(tutti("plan", "export", "ring", "-o", "/dev/null").stderr, "")

    def test_generates_only_the_rank_it_shows(self):
        max_kib = 1 << 20  # all ranks' steps take over 4 GiB
        command = [TUTTI, "plan", "show", "ring", "all_reduce", "-n", "4096", "--rank", "5"]
        with tempfile.TemporaryFile("w+") as out:
            child = subprocess.Popen(command, stdout=out)  # kept: one that is dropped may reap its process first
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = status
            out.seek(0)
            self.assertIn("\nrank 5\n", out.read())
        self.assertEqual(status, 0)
        self.assertLess(usage.ru_maxrss, max_kib)

    def test_refuses_options_that_contradict_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ring.json")
            self.assertEqual(tutti("plan", "export", "ring", "-n", "3", "-o", path).returncode, 0)
            for command in (("verify",), ("show",), ("draw", "-o", os.path.join(folder, "x.svg")), ("export",)):
                for more, words in ((("-n", "5"), "has plans for 3 ranks, not for 5"),
                                    (("all_gather",), "has plans of all_reduce, not of all_gather"),
                                    (("--groups", "2"), "--groups 2 would change nothing")):
                    done = tutti("plan", command[0], path, *more, *command[1:])
                    self.assertEqual(done.returncode, 2, done.stdout)
                    self.assertIn(words, done.stderr)
                done = tutti("plan", command[0], path, "all_reduce", "-n", "3", *command[1:])
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["ring.json", "x.svg"])

    def test_given_plans_run_and_must_be_the_same_on_all_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            for rank, name in enumerate(("ring", "two_shot")):
                path = os.path.join(folder, f"{rank}.json")
                self.assertEqual(tutti("plan", "export", name, "-n", "2", "-o", path).returncode, 0)
            perf = ("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "1M", "-f", "64", "-n", "2", "-w", "0")
            done = tutti(*perf, env={"TUTTI_PLAN": os.path.join(folder, "0.json")})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"(?m)^# with.* TUTTI_PLAN=\S+/0\.json$")
            done = tutti("perf", "all_reduce", "--np", "3", "-b", "8", "-e", "8", "-n", "2",
                         env={"TUTTI_PLAN": os.path.join(folder, "0.json")})
            self.assertEqual(done.returncode, 0, done.stderr)  # another communicator of the program may have 2 ranks
            self.assertIn("0.json is for 2 ranks, so a communicator of 3 does not use it", done.stderr)
            self.assertIn("0.json (not used: no plan for all_reduce of 3 ranks)\n", done.stdout)
            program = ("run", "-n", "2", "--", "sh", "-c",
                       f'TUTTI_PLAN={folder}/$TUTTI_RANK.json exec "$0" perf barrier -n 1', TUTTI)
            done = tutti(*program)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"TUTTI_PLAN gives .*ring@.* on rank . but .*; it must be the same")

    def test_uses_the_algorithms_collective(self):
        for algorithm, collective in (("linear", "gather"), ("pairwise", "all_to_all"), ("dissemination", "barrier"),
                                      ("ring", "all_reduce")):
            for command in (("show",), ("verify",), ("export",), ("draw", "-o", "-")):
                done = tutti("plan", command[0], algorithm, *command[1:])
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{algorithm} {collective} on 4 ranks", tutti("plan", "show", algorithm).stdout)
        self.assertIn("ring all_gather on 4 ranks", tutti("plan", "show", "ring", "MPI_Allgather").stdout)

    def test_has_an_example_for_each_subcommand(self):
        for command in ("list", "show", "verify", "draw", "export", "import"):
            text = tutti("plan", command, "--help").stdout
            example = text[text.index("Examples:"):]
            lines = [line.split() for line in example.splitlines() if line.startswith("  tutti ")]
            self.assertGreaterEqual(len(lines), 2)
            self.assertEqual({line[2] for line in lines}, {command})

    def test_counts_in_the_singular_too(self):
        for command in (("list",), ("show", "ring"), ("verify", "ring")):
            text = tutti("plan", *command, "-n", "1").stdout
            self.assertIn("1 rank", text)
            self.assertNotRegex(text, r"\b1 ranks")

    def test_errors_list_the_existing_names(self):
        for arguments, words in (
            (("show", "nope"), "there is no algorithm 'nope'; there are bidirectional_ring, binomial, "),
            (("show", "swong"), "there is no algorithm 'swong' (did you mean swing?)"),
            (("verify", "rong", "allreduce"), "all_reduce has no algorithm 'rong' (did you mean ring?); it has "),
            (("verify", "ring", "all_produce"),
             "there is no collective 'all_produce' (did you mean all_reduce?); there are all_reduce, "),
            (("show", "ring", "-n", "4", "--rank", "4"), "ranks are 0 to 3"),
            (("show", "ring", "-n", "4", "--rank", "-1"), "--rank: Value -1 not in range 0 to 4095"),
            (("draw", "ring", "-n", "4", "--rank", "4", "-o", "x.svg"), "ranks are 0 to 3"),
            (("draw", "ring", "-n", "4", "--root", "1", "-o", "x.svg"), "all_reduce has no root: leave out --root"),
            (("draw", "binomial", "broadcast", "--root", "4", "-o", "x.svg"), "--root 4 of 4 ranks: ranks are 0 to 3"),
            (("shw", "ring"), "there is no command 'shw' (did you mean show?); there are list, show, "),
            (("draw", "ring", "-n", "65", "-o", "x.svg"), "64 is the most"),
            (("verify", "ring", "-n", "0"), "not in range"),
            (("verify", "direct", "send_recv"), "it has none"),
            (("show", "hierarchical", "-n", "5"), "does not work for 5 ranks without --groups"),
            (("show", "hierarchical", "-n", "5", "--groups", "0,0,1"), "--groups has labels for 3 ranks where there"),
        ):
            done = tutti("plan", *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)
        done = tutti("plan", "draw", "ring", "-o", os.path.join("/no", "such", "folder.svg"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file or directory", done.stderr)


TOPOLOGIES = pathlib.Path(__file__).resolve().parents[1] / "topologies"


class Synth(unittest.TestCase):
    def synth(self, *words, topo="nccl-pcie-2-sockets.xml"):
        return tutti("plan", "synth", *words, "--topo", str(TOPOLOGIES / topo))

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
            self.assertIn("The cut that binds: {ranks 0-2 | rank 3}: 10 GB/s cross, 3 blocks must -> >= 80.53 ms/GiB", texts)
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
        self.assertRegex(done.stdout, r"apart +10 +1  NUMA node 0 - NUMA node 1")


if __name__ == "__main__":
    main()
