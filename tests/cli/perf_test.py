"""tutti perf: columns and definitions, checks, flags, variables."""

import json
import os
import re
import tempfile
import unittest

from support import LIAR, main, tutti

COLLECTIVES = ("all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter sendrecv "
               "barrier").split()
QUICK = ("-n", "1", "-w", "0")
FOLDED_IN_PLACE = {"all_to_all", "sendrecv", "barrier"}


def rows(text):
    """The table's lines as lists of words."""
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class Table(unittest.TestCase):
    def test_has_the_columns_and_the_footer_of_nccl_tests(self):
        done = tutti("perf", "all_reduce", "-t", "2", "-b", "8", "-e", "128", "-f", "4", *QUICK)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[:5] for row in rows(done.stdout)],
                         [[str(size), str(size // 4), "f32", "sum", "-1"] for size in (8, 32, 128)])
        for row in rows(done.stdout):
            self.assertEqual(len(row), 15)
            self.assertEqual((row[8], row[12]), ("0", "0"))
        self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
        self.assertRegex(done.stdout, r"# Avg bus bandwidth    : [0-9.e-]+\n")
        self.assertRegex(done.stdout, r"#  Rank  1 Pid +\d+ on +\S+ cpu +\d+ \[[\d,-]+\]")

    def test_has_the_bound_of_the_machine_beside_busbw(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.json")
            done = tutti("perf", "all_gather", "--np", "2", "-b", "8", "-e", "1M", "-f", "1024", *QUICK, "--bound", "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                page = json.load(file)
        if len(os.sched_getaffinity(0)) < 2:
            self.assertIn("# bound: unknown", done.stdout)
            return
        self.assertIn(f"# bound: {page['bound']['certificate']}\n", done.stdout)
        rate = float(re.search(r": ([\d.]+) GB/s cross, 1 block must", page["bound"]["certificate"])[1])
        self.assertRegex(done.stdout, r"(?m)^# size .* #bad +bound via row$")
        for row, result in zip(rows(done.stdout), page["results"]):
            self.assertAlmostEqual(float(row[13]), result["bound_busbw"], delta=0.01)
            self.assertLessEqual(result["bound_busbw"], rate * 1.0001)
        self.assertGreater(page["results"][-1]["bound_busbw"], page["results"][0]["bound_busbw"], "short calls wait for the way")
        done = tutti("perf", "broadcast", "--np", "2", "-b", "8", "-e", "8K", "-f", "1024", *QUICK, "--bound", "--json", "-")
        bounds = [result["bound_busbw"] for result in json.loads(done.stdout)["results"]]
        self.assertAlmostEqual(bounds[0], bounds[-1], msg="a root goes on to the next call before a rank has this one")
        done = tutti("perf", "gather", "--np", "2", "-b", "8", "-e", "8", *QUICK, "--bound")
        self.assertIn("# bound: unknown of this collective", done.stdout)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "ranks that share a core have no bound")
    def test_has_the_bound_of_each_root(self):
        perf = ("perf", "broadcast", "--np", "2", "-b", "1M", "-e", "1M", *QUICK, "--bound", "-r")
        one = tutti(*perf, "1")
        self.assertRegex(one.stdout, r"(?m)^# bound, root 1: \{rank 0 \| rank 1\}: ")
        all_roots = json.loads(tutti(*perf, "-1", "--json", "-").stdout)
        self.assertEqual([bound["root"] for bound in all_roots["bounds"]], [0, 1])
        self.assertTrue(all(result["bound_busbw"] > 0 for result in all_roots["results"]), all_roots)

    def test_shows_transport_and_the_whole_algorithm(self):
        forced = {"TUTTI_ALGO": "all_reduce:recursive_doubling"}
        done = tutti("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "64M", "-f", "100", *QUICK, env=forced)
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in rows(done.stdout):
            self.assertEqual(row[13], "shm")
            self.assertRegex(row[14], r"^recursive_doubling/lanes(/x\d+)?/\w+$")
        self.assertLessEqual(max(line.index(" shm ") for line in done.stdout.splitlines() if " shm " in line), 90)
        done = tutti("perf", "broadcast", "-t", "2", "-b", "8", "-e", "8", *QUICK,
                     env={"TUTTI_TRANSPORT": "tcp", "TUTTI_ALGO": "broadcast:binomial"})
        self.assertRegex(" ".join(rows(done.stdout)[0][13:]), r"^tcp binomial/lanes/inl")
        done = tutti("perf", "sendrecv", "-t", "2", "-b", "8", "-e", "8", *QUICK)
        self.assertRegex(" ".join(rows(done.stdout)[0][13:]), r"^local direct/lanes/inl")
        done = tutti("perf", "barrier", *QUICK)
        self.assertEqual(rows(done.stdout)[0][13], "none")  # a single rank

    def test_methods_of_gpus_are_said_not_to_concern_memory_of_the_host(self):
        call = ("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", *QUICK)
        words = "TUTTI_METHOD forces nvls for all_reduce, a method of GPUs: calls on memory of the host run without it"
        self.assertEqual(tutti(*call, env={"TUTTI_METHOD": "all_reduce:nvls"}).stderr.count(words), 1)
        self.assertNotIn("TUTTI_METHOD", tutti(*call, env={"TUTTI_METHOD": "lanes"}).stderr)

    def test_json_on_the_standard_output_is_alone_there(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("perf", "all_reduce", "-t", "2", "-b", "8", "-e", "8", *QUICK, "--json", "-", cwd=folder)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["size"] for row in json.loads(done.stdout)["results"]], [8])

    def test_of_every_collective_is_correct_for_any_number_of_ranks(self):
        for collective in COLLECTIVES:
            for ranks in "1", "3":
                with self.subTest(collective, ranks=ranks):
                    done = tutti("perf", collective, "-t", ranks, "-b", "4", "-e", "40K", "-f", "20", *QUICK)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    for row in rows(done.stdout):
                        self.assertEqual(row[8], "0")
                        self.assertEqual(row[12], "N/A" if collective in FOLDED_IN_PLACE else "0")

    def test_supports_mapped_buffers(self):
        for collective in ("all_reduce", "all_to_all", "broadcast"):
            done = tutti("perf", collective, "--np", "3", "-R", "1", "-b", "4", "-e", "4M", "-f", "1000", *QUICK)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual({row[8] for row in rows(done.stdout)}, {"0"})

    def test_of_calls_that_are_queued_and_grouped(self):
        done = tutti("perf", "reduce_scatter", "-t", "2", "-z", "0", "-m", "3", "-n", "2", "-b", "1K", "-e", "1K")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(rows(done.stdout)[0][8], "0")

    def test_goes_through_all_types_ops_and_roots(self):
        done = tutti("perf", "reduce", "-t", "2", "-b", "64", "-e", "64", "-d", "all", "-o", "all", "-r", "all", *QUICK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        kinds = {tuple(row[2:5]) for row in rows(done.stdout)}
        self.assertEqual(len(kinds), 14 * 9 * 2)
        self.assertIn(("f8e5m2", "mulsum", "1"), kinds)

    def test_sizes_go_by_factor_or_by_step(self):
        done = tutti("perf", "broadcast", "-b", "1K", "-e", "4K", "-i", "1K", *QUICK)
        self.assertEqual([row[0] for row in rows(done.stdout)], ["1024", "2048", "3072", "4096"])
        done = tutti("perf", "all_gather", "-t", "3", "-b", "0", "-e", "30", "-f", "3", *QUICK)
        self.assertEqual([row[:2] for row in rows(done.stdout)], [["0", "0"], ["12", "1"], ["24", "2"]])

    def test_knows_the_names_of_nccl_tests(self):
        done = tutti("perf", "all_reduce_perf", "-b", "8", "-e", "8", "-d", "half", "-o", "mulsum", *QUICK)
        self.assertEqual(rows(done.stdout)[0][:4], ["8", "4", "f16", "mulsum"])
        self.assertEqual(tutti("perf", "alltoall_perf", "-b", "8", "-e", "8", *QUICK).returncode, 0)

    def test_is_written_as_json_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/perf.json"
            done = tutti("perf", "all_gather", "-t", "2", "-b", "8K", "-e", "8K", "--json", path, *QUICK)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                page = json.load(file)
        self.assertEqual((page["collective"], len(page["ranks"]), page["wrong"]), ("all_gather", 2, 0))
        result, = page["results"]
        self.assertEqual((result["size"], result["count"], result["type"], result["redop"], result["root"]),
                         (8192, 1024, "f32", "none", -1))
        for half in result["out_of_place"], result["in_place"]:
            self.assertAlmostEqual(half["algbw"], 8192 / half["time_us"] / 1e3)
            self.assertAlmostEqual(half["busbw"], half["algbw"] / 2)
            self.assertIn(half["delivery"], ("staged", "zcopy", "direct-store"))
            self.assertGreater(half["model_us"], 0.1)
        self.assertEqual(result["transport"], "local")
        self.assertRegex(result["algorithm"], "^[a-z_]+$")

    def test_of_one_rank_has_no_bandwidth(self):
        with tempfile.TemporaryDirectory() as folder:
            done = tutti("perf", "all_reduce", "-b", "8K", "-e", "8K", "--json", folder + "/perf.json", *QUICK)
            with open(folder + "/perf.json") as file:
                page = json.load(file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# One rank sends nothing, so there is no bandwidth. More ranks: --np 2", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ *8192 +2048 +f32 +sum +-1 +[\d.]+ +N/A +N/A +0 +[\d.]+ +N/A +N/A +0 ")
        self.assertIn("# Avg bus bandwidth    : N/A (one rank)", done.stdout)
        self.assertIsNone(page["average_busbw"])
        self.assertIsNone(page["results"][0]["out_of_place"]["algbw"])


class Checks(unittest.TestCase):
    def liar(self, lie, *more):
        return tutti("perf", "all_reduce", "-t", "2", "-b", "64", "-e", "64", *QUICK, *more, binary=LIAR,
                     env={"LIAR": lie})

    def test_pass_correct_results(self):
        self.assertEqual(self.liar("").returncode, 0)

    def test_detect_a_wrong_bit(self):
        done = self.liar("output")
        self.assertEqual(done.returncode, 1)
        row, = rows(done.stdout)
        self.assertEqual((row[8], row[12]), ("1", "1"))
        self.assertIn("# Out of bounds values : 2 FAILED\n", done.stdout)
        self.assertRegex(done.stderr, r"rank 1: all_reduce of 16 f32, out of place: 1 of 16 elements of the output are wrong; "
                         r"the first, \[8\], is .* and must be ")

    def test_detect_an_unchanged_output(self):
        row, = rows(self.liar("nothing").stdout)
        self.assertGreaterEqual(int(row[8]), 15)

    def test_detect_writes_outside_the_buffers(self):
        for lie in "input", "before", "after":
            with self.subTest(lie):
                done = self.liar(lie)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(rows(done.stdout)[0][8], "1")

    def test_can_be_disabled_and_then_report_nothing(self):
        done = self.liar("output", "-c", "0")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(rows(done.stdout)[0][8], "N/A")
        self.assertIn("(not checked)", done.stdout)

    def test_count_a_failed_call_as_failure(self):
        done = self.liar("failure")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti perf: rank 1: ", done.stderr)
        self.assertNotRegex(done.stderr, r"rank (\d+): rank \1: ")

    def test_accept_other_libraries_names(self):
        for collective, op, type_ in (("allreduce", "mulsum", "float"), ("ncclAllReduce", "premulsum", "ncclHalf"),
                                      ("MPI_Allreduce", "MPI_MAX", "MPI_DOUBLE"), ("all_reduce_perf", "avg", "bfloat16")):
            done = tutti("perf", collective, "-t", "2", "-b", "64", "-e", "64", "-o", op, "-d", type_, *QUICK)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(": all_reduce, 2 ranks;", done.stdout)
        for collective in ("alltoall", "bcast", "sendrecv", "send_recv", "reducescatter", "allgather", "MPI_Gather"):
            self.assertEqual(tutti("perf", collective, "-t", "2", "-b", "64", "-e", "64", *QUICK).returncode, 0)

    def test_count_in_the_singular_too(self):
        done = tutti("perf", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "1")
        self.assertIn(": all_reduce, 1 rank; 1 warm-up call, 1 timed", done.stdout)


class Variables(unittest.TestCase):
    """An error in an environment variable names it."""

    def error_of(self, **variables):
        done = tutti("perf", "all_reduce", "-t", "2", "-b", "8", "-e", "8", *QUICK, env=variables)
        self.assertNotEqual(done.returncode, 0, variables)
        return done.stderr

    def test_invalid_ones_are_named(self):
        wrong = {"TUTTI_LOG": "loud", "TUTTI_INTERFACE": "nope0", "TUTTI_HEARTBEAT_TIMEOUT": "-1", "TUTTI_RANK": "x",
                 "TUTTI_SIZE": "0", "TUTTI_LOCAL_RANK": "-2", "TUTTI_LOCAL_SIZE": "many", "TUTTI_PORT": "70000",
                 "TUTTI_FAULT": "bogus", "TUTTI_TIMEOUT": "nan", "TUTTI_INIT_TIMEOUT": "soon",
                 "TUTTI_TRANSPORT": "tpc", "TUTTI_ALGO": "nope:ring", "TUTTI_PLAN": "/no/such.json",
                 "TUTTI_GROUPS": "two", "TUTTI_REPRODUCIBLE": "maybe", "TUTTI_ARENA": "1", "TUTTI_CMA": "never",
                 "TUTTI_MESSAGE": "1"}
        for name, value in wrong.items():
            with self.subTest(name):
                self.assertIn(name, self.error_of(**{name: value}))
        launch = {"TUTTI_RANK": "1", "TUTTI_SIZE": "2", "TUTTI_JOB": "job", "TUTTI_INIT_TIMEOUT": "0.2"}
        self.assertIn("TUTTI_ID: a unique id in text has 256", self.error_of(**launch, TUTTI_ID="12"))
        text = self.error_of(**launch, TUTTI_ROOT_ADDR="no.such.host.invalid", TUTTI_KEY="k")
        self.assertIn("(TUTTI_ROOT_ADDR)", text)

    def test_an_error_of_all_ranks_is_said_once(self):
        text = self.error_of(TUTTI_ALGO="all_reduce:hierarchical")  # found by each thread
        self.assertEqual(text.count("TUTTI_ALGO forces"), 1, text)
        self.assertIn("tutti perf: 2 ranks have said so\n", text)
        for name, value in (("TUTTI_ALGO", "all_reduce:nope"), ("TUTTI_PLAN", "/no/such.json"), ("TUTTI_METHOD", "nope")):
            done = tutti("perf", "all_reduce", "--np", "3", "-b", "8", "-e", "8", *QUICK, env={name: value})
            self.assertEqual((done.returncode != 0, done.stderr.count("\n")), (True, 1), done.stderr)
            self.assertIn(name, done.stderr)

    def test_misspelt_ones_get_a_suggestion(self):
        self.assertIn("did you mean TUTTI_ALGO?", tutti("env", env={"TUTTI_ALGOS": "x"}).stderr)
        self.assertIn("did you mean tcp?", self.error_of(TUTTI_TRANSPORT="tpc"))
        self.assertIn("did you mean ring?", self.error_of(TUTTI_ALGO="allreduce:rign"))

    def test_forced_hierarchical_algorithms_need_groups(self):
        self.assertIn("TUTTI_ALGO forces all_reduce:hierarchical, which cannot be used on 2 ranks",
                      self.error_of(TUTTI_ALGO="all_reduce:hierarchical"))


class BadCommandLines(unittest.TestCase):
    def test_are_refused_with_a_remedy(self):
        for arguments, words in (
                (["all_reduced"], "there is no collective 'all_reduced' (did you mean all_reduce?); there are all_reduce, "),
                ([], "COLLECTIVE is required"),
                (["all_reduce", "-d", "f31"], "-d: there is no element type 'f31' (did you mean "),
                (["all_reduce", "-o", "nand"], "-o: there is no operator 'nand'; there are sum, "),
                (["all_gather", "-o", "sum"], "folds nothing"),
                (["all_reduce", "-r", "0"], "has no root"),
                (["reduce", "-r", "first"], "write a rank, or all"),
                (["all_reduce", "-b", "8X"], "such as 8, 64K"),
                (["all_reduce", "-b", "1M", "-e", "1K"], "is more than"),
                (["all_reduce", "-i", "8", "-f", "2"], "not both"),
                (["all_reduce", "-i", "1", "-e", "1G"], "those are more than"),
                (["all_reduce", "-f", "1"], "--stepfactor"),
                (["all_reduce", "-f", "nan"], "--stepfactor: Value nan not in range 1.001 to 1e+18"),
                (["all_reduce", "-n", "0"], "--iters"),
                (["all_reduce", "-g", "8"], "give the number of ranks by --np"),
                (["all_reduce", "-T", "30"], "TUTTI_TIMEOUT"),
                (["all_reduce", "--stepfacter"], "there is no option --stepfacter (did you mean --stepfactor?)"),
                (["all_reduce", "all_gather"], "nothing more was expected, but there is 'all_gather'")):
            with self.subTest(arguments):
                done = tutti("perf", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_too_much_memory_is_refused_before_allocating(self):
        for ranks in (("--np", "2"), ("-t", "2"), ("-t", "2", "-R", "1"), ()):
            done = tutti("perf", "all_reduce", *ranks, "-b", "900T", "-e", "900T", *QUICK)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"two buffers of 921600\.0 GiB for each rank; .*, where "
                                          r"\d+\.\d GiB can be had: give a smaller -e \(or -b\), or fewer ranks")
            self.assertNotIn("bad_alloc", done.stderr)
            self.assertEqual(rows(done.stdout), [])

    def test_errors_found_by_the_ranks(self):
        done = tutti("perf", "reduce", "-t", "2", "-r", "2", *QUICK)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there are 2 ranks, the last is 1", done.stderr)
        done = tutti("perf", "reduce", "--json", "/no/such/folder/x.json", *QUICK)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--json /no/such/folder/x.json: No such file or directory", done.stderr)
        self.assertEqual(rows(done.stdout), [])

    def test_a_run_that_fails_leaves_an_earlier_file_alone(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("earlier results")
            file.flush()
            done = tutti("perf", "reduce", "-b", "64T", "-e", "64T", "--json", file.name, *QUICK)
            self.assertEqual(done.returncode, 1)
            self.assertIn("can be had", done.stderr)
            with open(file.name) as left:
                self.assertEqual(left.read(), "earlier results")


if __name__ == "__main__":
    main()
