"""tutti lab: the table, the JSON, and what it says of input that cannot be."""

import json
import math
import os
import re
import tempfile
import unittest

from support import main, tutti

WIDTH = 100  # columns
TOPOLOGY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies", "nccl-8-gpus-8-nics.xml")


def plan(*arguments):
    """The JSON of a plan."""
    done = tutti("lab", *arguments, "--json", "-")
    if done.returncode != 0 and not done.stdout:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def evaluate(formula, symbols):
    """A formula's text, computed by Python."""
    for text, operator in (("·", "*"), ("−", "-"), ("≥", ">="), ("≤", "<=")):
        formula = formula.replace(text, operator)
    functions = {"min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt}
    return eval(formula, {"__builtins__": {}}, {**symbols, **functions})


class Lab(unittest.TestCase):
    def check_error(self, arguments, words, status=2):
        done = tutti("lab", *arguments)
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertIn(words, done.stderr)

    def test_takes_hosts_and_links_from_a_topology(self):
        found = plan("--model", "7b", "--topo", TOPOLOGY, "--hosts", "4")
        self.assertAlmostEqual(found["best"]["symbols"]["W_out"], 47e9, delta=2e9)
        done = tutti("lab", "--model", "7b", "--topo", TOPOLOGY, "--hosts", "4", "--tp", "2")
        self.assertIn("on 32 GPUs", done.stdout)
        self.assertIn("8 a host", done.stdout)
        self.assertRegex(done.stdout, r"t_tp +reduce_scatter +\S+ \S+ +2 +1  ")
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), WIDTH, line)
        self.check_error(("--topo", TOPOLOGY + ".absent"), "absent", status=1)

    def test_more_gpus_than_the_file_has_are_on_more_such_hosts(self):
        hosts = tutti("lab", "--model", "7b", "--topo", TOPOLOGY, "--hosts", "8")
        gpus = tutti("lab", "--model", "7b", "--topo", TOPOLOGY, "--gpus", "64")
        self.assertRegex(hosts.stdout, r"(?m)^  links of a GPU: \d+ GB/s inside a host, 4\d(\.\d)? GB/s between hosts$")
        self.assertEqual(gpus.stdout, hosts.stdout)
        self.assertIn("a host\n", tutti("lab", "--model", "7b", "--topo", TOPOLOGY).stdout, "one host has no others")

    def test_gpus_are_those_of_the_topology(self):
        with tempfile.TemporaryDirectory() as folder:
            for sm, gpu, says in (("80", "a100", "compute capability 8.0"), ("90", "h100", "compute capability 9.0"),
                                  ("", "h100", "does not say which GPUs")):
                path = os.path.join(folder, f"sm{sm}.xml")
                with open(TOPOLOGY) as file:
                    text = re.sub(r' sm="\d+"', f' sm="{sm}"' if sm else "", file.read())
                with open(path, "w") as file:
                    file.write(text)
                done = tutti("lab", "--params", "1b", "--topo", path, "--json", "-")
                self.assertEqual(json.loads(done.stdout)["gpu"], gpu)
                self.assertRegex(done.stderr, f"note: .*{says}.*memory and rates are those of --gpu {gpu}; name another")
                named = tutti("lab", "--params", "1b", "--topo", path, "--gpu", "v100", "--json", "-")
                self.assertEqual(json.loads(named.stdout)["gpu"], "v100")
                self.assertNotIn("--gpu", named.stderr)

    def test_agrees_with_explain_and_sim(self):
        """Of the calls of some layouts: lab and explain within 10 %; sim too, or it says why not."""
        hosts = ("--topo", TOPOLOGY, "--hosts", "4", "--memory", "500")
        layouts = (("-m", "7b", "--dp", "32", "--zero", "0"), ("-m", "7b", "--dp", "32", "--zero", "3"),
                   ("-m", "70b", "--tp", "8", "--pp", "1", "--cp", "1", "--zero", "3"),
                   ("-m", "13b", "--tp", "4", "--pp", "1", "--cp", "1", "--zero", "1", "--no-sp"),
                   ("-m", "8x7b", "--tp", "1", "--pp", "1", "--cp", "1", "--ep", "8", "--zero", "1"))
        calls = {}
        for layout in layouts:
            found = plan(*layout, *hosts)
            rows = {}
            for call in found["calls"]:
                rows[call["row"]] = rows.get(call["row"], 0) + call["count"] * call["seconds"]
                if call["call"] != "message":
                    calls[call["call"], round(call["bytes"]), call["ranks"], call["hosts"]] = call
            for row, seconds in rows.items():  # of a curve, between powers of two
                self.assertTrue(math.isclose(found["best"]["symbols"][row], seconds, rel_tol=0.1), (layout, row))
            given = {figure["name"] for figure in found["best"]["figures"] if figure["formula"] == "given"}
            self.assertEqual(given, set(rows))
        self.assertGreaterEqual(len(calls), 10, list(calls))
        alike = 0
        for (name, size, ranks, number), call in calls.items():
            same = (name, "--bytes", str(size), "-n", str(ranks), "--topo", TOPOLOGY, "--hosts", str(number))
            with self.subTest(call=same):
                explained = json.loads(tutti("explain", *same, "--json").stdout)["candidates"][0]
                self.assertTrue(math.isclose(call["seconds"], explained["seconds"], rel_tol=0.1), (call, explained))
                simulated = json.loads(tutti("sim", *same, "--json").stdout)["algorithms"][0]
                close = math.isclose(simulated["formula_seconds"], simulated["seconds"], rel_tol=0.1)
                said = tutti("sim", *same).stdout
                self.assertNotEqual(close, "    because " in said, said)
                if "links_alone" in call:
                    alike += math.isclose(call["links_alone"], simulated["seconds"], rel_tol=0.1)
                else:
                    self.assertEqual(call["method"], "nvls")
                    self.assertIn("knows no switch that folds", tutti("explain", *same).stdout)
        self.assertGreaterEqual(alike, 6)  # links alone, which both have

    def test_other_links_than_the_topologys_make_rings(self):
        found = plan("-m", "7b", "--topo", TOPOLOGY, "--inter", "10")
        self.assertNotIn("calls", found)
        self.assertFalse([figure for figure in found["best"]["figures"] if figure["formula"] == "given"])

    def test_what_is_text_alone_writes_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for about in ("--published", "all"), ("--largest",):
                for option, name in ("--json", "l.json"), ("--html", "l.html"), ("-o", "l.json"):
                    self.check_error((*about, option, os.path.join(folder, name)), f"{about[0]} prints text and writes no file")
            self.assertEqual(os.listdir(folder), [])

    def test_names_the_option_that_counts_for_nothing(self):
        topology = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies", "nccl-8-gpus-8-nics.xml")
        self.check_error(("--nvlink", "300"), "--nvlink: give the topology too, by --topo")
        self.check_error(("--hosts", "4"), "--hosts: give the topology too, by --topo")
        self.check_error(("--gpus", "8", "--topo", topology, "--hosts", "2"), "--gpus 8: the 2 hosts of --topo have 16")
        self.assertEqual(tutti("lab", "--gpus", "16", "--topo", topology, "--hosts", "2").returncode, 0)

    def test_names_the_option_its_unit_and_whole_numbers(self):
        self.check_error(("--efficiency", "200"), "--efficiency: the share of the kernels' rates in % must be between 0.1 and 100, not 200")
        self.check_error(("--usable", "0"), "--usable: the usable share of the memory in % must be between 1 and 100, not 0")
        self.check_error(("--gpus", "10000000"), "-n: the number of GPUs must be between 1 and 1048576, not 10000000")
        self.check_error(("--gpus-per-host", "0"), "--gpus-per-host: the number of GPUs of a host must be between 1 and 1048576, not 0")

    def test_gpus_without_products_in_fp8_have_none(self):
        for gpu in "v100", "a100":
            self.check_error(("-m", "7b", "-n", "64", "--fp8", "--gpu", gpu), f"--fp8: GPU {gpu} has no matrix products in fp8")
        self.assertEqual(tutti("lab", "-m", "7b", "-n", "64", "--fp8", "--gpu", "h100").returncode, 0)

    def test_prints_a_table_of_a_hundred_columns(self):
        for arguments in ((), ("-m", "70b", "-n", "128"), ("-m", "8x7b", "-n", "256", "--all"), ("-m", "405b", "-n", "4096"),
                          ("--params", "1.3b", "-n", "24", "--gpu", "v100", "--schedule", "interleaved"), ("-m", "1t", "-n", "3072", "--all")):
            done = tutti("lab", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Best: dp ", done.stdout)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), WIDTH, line)

    def test_gives_the_reference_values(self):
        def states(*arguments):
            found = plan(*arguments, "--memory", "2000GB")
            return found["best"]["symbols"]["states"]

        self.assertEqual(states("-m", "7b", "-n", "1"), 112e9)
        self.assertEqual(states("-m", "70b", "-n", "1"), 1120e9)
        flat = ("--tp", "1", "--pp", "1", "--cp", "1")
        for zero, value in (("1", 29.3125e9), ("2", 15.53125e9), ("3", 1.75e9)):
            self.assertEqual(states("-m", "7b", "-n", "64", *flat, "--zero", zero), value)
        self.assertEqual(states("-m", "70b", "-n", "128", *flat, "--zero", "3"), 8.75e9)
        self.assertEqual(states("-m", "13b", "-n", "64", "--dp", "16", "--pp", "4", "--zero", "3"), 3.25e9)
        done = tutti("lab", "-m", "7b", "-n", "64", *flat, "--zero", "1")
        self.assertRegex(done.stdout, r"model states +states +29\.3 GB +weights \+ gradients \+ optimizer")
        sent = plan("-m", "7b", "-n", "8", "--dp", "8", "--zero", "0", "--memory", "500")["best"]["symbols"]["sent_dp"]
        self.assertEqual(sent, 24.5e9)

    def test_every_number_is_what_its_formula_says(self):
        count = 0
        for arguments in (("-m", "7b", "-n", "64"), ("-m", "8x7b", "-n", "128", "--ep", "8", "--gpu", "h200"), ("-m", "405b", "-n", "4096"),
                          ("-m", "175b", "-n", "1024", "--gpu", "a100", "--schedule", "zb-h1", "--no-sp"),
                          ("-m", "70b", "-n", "128", "--schedule", "interleaved", "--pp", "4", "--recompute", "all")):
            found = plan(*arguments)
            for one in [found["best"], *found["others"]]:
                for figure in one["figures"]:
                    value = evaluate(figure["formula"], one["symbols"])
                    self.assertTrue(math.isclose(value, figure["value"], rel_tol=1e-12, abs_tol=1e-30), figure)
                    self.assertNotEqual(figure["label"], "")
                    count += 1
        self.assertGreater(count, 1000)

    def test_the_best_is_the_fastest_that_fits(self):
        found = plan("-m", "13b", "-n", "64")
        steps = [one["symbols"]["T_step"] for one in [found["best"], *found["others"]]]
        self.assertEqual(steps, sorted(steps))
        for one in [found["best"], *found["others"]]:
            self.assertLessEqual(one["symbols"]["total"], one["symbols"]["budget"])
            sizes = one["layout"]
            self.assertEqual(sizes["dp"] * sizes["pp"] * sizes["cp"] * sizes["ep"] * sizes["tp"], 64)

    def test_says_what_is_short_and_by_how_much(self):
        done = tutti("lab", "-m", "175b", "-n", "8")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"nothing fits: the smallest layout needs \d+ GB on each GPU, \d+ GB more than the usable 77.0 GB "
                                      r"\(85.5 GB · 90.0 %\); GPUs of \d+ GB would do, or \d+ of these\n")
        self.assertIn("The smallest layout: dp ", done.stdout)
        enough = re.search(r"or (\d+) of these", done.stderr)[1]
        self.assertEqual(tutti("lab", "-m", "175b", "-n", enough).returncode, 0)
        memory = re.search(r"GPUs of (\d+) GB", done.stderr)[1]
        self.assertEqual(tutti("lab", "-m", "175b", "-n", "8", "--memory", str(int(memory) + 1)).returncode, 0)
        found = plan("-m", "175b", "-n", "8")
        self.assertFalse(found["fits"])
        self.assertIsNone(found["best"])
        self.assertLess(found["smallest"]["symbols"]["free"], 0)

    def test_refuses_what_cannot_be(self):
        self.check_error(("-m", "7bb"), "--model knows no '7bb' (did you mean 7b?); it knows 7b, 8b")
        self.check_error(("--gpu", "h1000"), "--gpu knows no 'h1000' (did you mean h100?)")
        self.check_error(("--memory", "much"), "--memory takes a number such as 80GB or 80GiB, not 'much'")
        self.check_error(("--memory", "-5"), "--memory takes a number")
        self.check_error(("--params", "7q"), "--params takes a number such as 7b or 350m, not '7q'")
        self.check_error(("--params", "nan"), "--params takes a number")
        self.check_error(("-n", "0"), "-n: the number of GPUs must be between 1 and")
        self.check_error(("-n", "-8"), "-n: the number of GPUs must be between 1 and")
        self.check_error(("--gpus-per-host", "0"), "--gpus-per-host: the number of GPUs of a host must be between")
        self.check_error(("--inter", "0"), "--inter: the bandwidth between hosts in GB/s must be between 0.001 and 1000000, not 0")
        self.check_error(("--tp", "3"), "tp = 3 does not divide the 32 attention heads; 2 or 4 would")
        self.check_error(("--mlp", "thin"), "--mlp is one of plain, gated, not 'thin'")
        self.check_error(("--gradients", "f16"), "--gradients is one of bf16, f32, not 'f16'")
        self.check_error(("--price", "nan"), "--price must be between 1e-09 and 1e+12, not nan")
        self.check_error(("--tokens", "much"), "--tokens takes a number")
        self.check_error(("--published", "llama4"), "--published knows no 'llama4'")
        self.check_error(("-n", "64", "--pp", "64"), "pp = 64 is more than the 32 layers, and each stage needs one; at most 32 would do")
        self.check_error(("--tp", "16"), "the product of the given sizes = 16 does not divide the 8 GPUs")
        self.check_error(("--zero", "5"), "--zero: the ZeRO stage must be between 0 and 3, not 5")
        self.check_error(("--ep", "2"), "the model is dense")
        self.check_error(("--layers", "4"), "a shape needs both layers and hidden size")
        self.check_error(("--layers", "0", "--hidden", "8"), "--layers: the number of layers must be between 1 and 100000000, not 0")
        self.check_error(("--layers", "4", "--hidden", "1000", "--heads", "3"), "3 heads do not divide the hidden size 1000")
        self.check_error(("--schedule", "1f2b"), "--schedule is one of gpipe, 1f1b, interleaved, zb-h1, dualpipe, not '1f2b'")
        self.check_error(("--recompute", "some"), "--recompute is none, selective or all, not 'some'")
        self.check_error(("-n", "7", "--pp", "1", "--batch", "1000"), "no layout uses all 7 GPUs")
        self.check_error(("--gups", "8"), "there is no option --gups (did you mean --gpus?)")
        self.check_error(("--json", "/nowhere/x.json"), "--json /nowhere/x.json: No such file", status=1)
        self.check_error(("--html", "/nowhere/x.html"), "--html /nowhere/x.html: No such file", status=1)

    def test_impossible_numbers_name_their_option(self):
        text = tutti("lab", "--help").stdout
        options = set(re.findall(r"(--[a-z][a-z-]*) +(?:INT|FLOAT|TEXT)", text)) - {
            "--model", "--gpu", "--mlp", "--schedule", "--recompute", "--gradients", "--published", "--json", "--html"}
        self.assertGreaterEqual(len(options), 35, options)
        wrong = ("nan", "-inf", "-1", "1e308", "9" * 40)
        for option in sorted(options):
            for value in wrong:
                with self.subTest(option=option, value=value):
                    done = tutti("lab", "--topo", TOPOLOGY, f"{option}={value}")
                    self.assertEqual(done.returncode, 2, done.stdout)
                    self.assertRegex(done.stderr, f"{option}|-n: " if option == "--gpus" else option)

    def test_takes_the_layout_that_trained_llama_3(self):
        found = plan("-m", "405b", "-n", "16384", "--tp", "8", "--pp", "16", "--tokens", "15.6t", "--price", "2")
        layout, symbols = found["best"]["layout"], found["best"]["symbols"]
        self.assertEqual((layout["dp"], layout["cp"], layout["recompute"]), (128, 1, 0))
        self.assertGreaterEqual(symbols["MFU"], 0.35)
        run = found["run"]["symbols"]
        self.assertTrue(25e6 < run["gpu_hours"] < 37e6, run)  # Meta's model card says 30.84 million
        self.assertAlmostEqual(run["cost"], 2 * run["gpu_hours"])
        for figure in found["run"]["figures"]:
            self.assertTrue(math.isclose(evaluate(figure["formula"], run), figure["value"], rel_tol=1e-12), figure)

    def test_says_that_a_run_would_not_end(self):
        run = ("-m", "7b", "-n", "64", "--tokens", "1t")
        self.assertNotIn("would not end", tutti("lab", *run).stdout)
        for option in ("--mtbf", "1e-9"), ("--checkpoint", "1e12"), ("--restart", "1e12"):
            self.assertIn("This run would not end: a failure every ", tutti("lab", *run, *option).stdout)
        self.assertIn("of 1.00 TB", tutti("lab", *run, "--memory", "1TB").stdout)

    def test_shows_published_runs_beside_their_predictions(self):
        done = tutti("lab", "--published", "all")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split("|") for line in done.stdout.splitlines() if line.count(" % |") == 3]
        self.assertGreaterEqual(len(rows), 25)
        for row in rows:
            self.assertLessEqual(abs(float(row[8].split()[0])), 30, row)
            self.assertNotEqual(row[4].strip(), "")  # where its figures were seen
        held_out = re.search(r"Of all (\d+) runs, each held out: median error (\S+) %, worst (\S+) %", done.stdout)
        self.assertEqual(int(held_out[1]), len(rows))
        self.assertLessEqual(float(held_out[2]), 12)
        self.assertLessEqual(float(held_out[3]), 30)
        self.assertRegex(done.stdout, r"Median error \d\.\d %, worst \d+\.\d %")
        kept = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "results", "planner.md")
        with open(kept) as file:
            self.assertEqual(file.read(), done.stdout, "tutti lab --published all > bench/results/planner.md")
        self.assertIn("published 41.0 %", tutti("lab", "--published", "llama3-405b").stdout)

    def test_the_largest_model_that_fits(self):
        done = tutti("lab", "--largest", "-n", "64", "--memory", "80GB")
        for words in ("5.00 G", "19.1 G", "36.1 G", "320 G"):
            self.assertIn(words, done.stdout)

    def test_a_size_alone_is_a_model(self):
        symbols = plan("--params", "175b", "-n", "1024")["best"]["symbols"]
        self.assertEqual((symbols["L"], symbols["h"], symbols["a"], symbols["Ψ"]), (96, 12288, 96, 175e9))
        counted = plan("--layers", "32", "--hidden", "4096", "--ffn", "11008", "--mlp", "gated", "-n", "64")["best"]["symbols"]
        self.assertEqual(counted["Ψ"], 6738415616)
        plain = plan("--layers", "96", "--hidden", "12288", "--vocab", "50257", "-n", "1024")["best"]["symbols"]
        self.assertEqual(plain["Ψ"], 175183663104)

    def test_writes_a_page_that_stands_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lab.html")
            done = tutti("lab", "-n", "64", "--html", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                page = file.read()
        self.assertNotIn("{{", page)
        self.assertEqual(re.findall(r"""(?:src|@import|url\()\s*=?\s*["'(]?\s*(?:https?:)?//""", page), [])
        self.assertNotIn("27.6", page)  # a figure that no text gives
        self.assertIn("Only for N → ∞", page)
        self.assertIn('<meta name="viewport"', page)


if __name__ == "__main__":
    main()
