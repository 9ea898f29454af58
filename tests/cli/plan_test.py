"""tutti plan: list, show, verify, draw, export, import; TUTTI_PLAN."""

import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from support import TUTTI, main, tutti


class Plan(unittest.TestCase):
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


if __name__ == "__main__":
    main()
