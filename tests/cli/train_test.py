"""tutti train: the loss falls and does not depend on the ranks, files, errors."""

import hashlib
import json
import os
import re
import shutil
import struct
import tempfile
import unittest
import xml.etree.ElementTree

from support import main, tutti

SMALL = ("--layers", "2", "--width", "32", "--length", "32", "--steps", "20", "--rate", "0.01", "--warmup", "2")


def words_of(svg):
    """The words of a picture, which must be XML."""
    return [text.text for text in xml.etree.ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")]


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.text = self.path("text")
        with open(self.text, "w") as text:
            text.write("".join(f"{i} and {i + 1} are neighbours.\n" for i in range(1000)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, *arguments):
        return tutti("train", "--text", self.text, *SMALL, *arguments)

    def lines(self, *arguments):
        log = self.path("log")
        done = self.train("--json", log, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(log) as file:
            return [json.loads(line) for line in file]

    def test_two_ranks_learn_what_one_learns(self):
        one, two = self.lines(), self.lines("-n", "2")
        self.assertEqual([line["step"] for line in one[:-1]], list(range(1, 21)))
        for a, b in zip(one[:-1], two[:-1]):
            self.assertAlmostEqual(a["loss"] / b["loss"], 1, delta=1e-4)
        self.assertLess(two[-2]["bits_per_byte"], 0.8 * two[0]["bits_per_byte"])
        self.assertNotIn("gradients", one[-1]["summary"]["traffic"] or {})
        self.assertEqual(two[-1]["summary"]["traffic"]["gradients"]["elements"] % 20, 0)

    def test_prints_a_table_and_what_was_hidden(self):
        done = self.train("-n", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 ranks: dp 2, pp 1, cp 1, ep 1, tp 1", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +20 +\d\.\d+ +\d\.\d+ +\d+\.\d+ +\d+ +[\d.]+% +[\d.]+%$")
        self.assertRegex(done.stdout, r"# bits per byte: 8\.\d+ in the first step, \d\.\d+ over the last 20\n")
        self.assertRegex(done.stdout, r"# .* of it hidden behind backward\n")
        self.assertRegex(done.stdout, r"# gradients +\d+ calls; rank 0 sends +[\d.]+ MiB")
        self.assertRegex(done.stdout, r"# replicas +rank 0 has sent +[\d.]+ MiB; by the formulas [\d.]+\n")

    def test_every_flag_is_documented(self):
        docs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "training.md")
        with open(docs) as file:
            table = file.read().partition("## All flags")[2]
        for flag in re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", tutti("train", "--help").stdout):
            if flag != "--help":
                self.assertRegex(table, rf"`{flag}[ `]")

    def test_draws_the_curve(self):
        svg = self.path("curve.svg")
        self.assertEqual(self.train("--svg", svg).returncode, 0)
        picture = xml.etree.ElementTree.parse(svg).getroot()
        points = picture.find("{http://www.w3.org/2000/svg}polyline").get("points").split()
        self.assertEqual(len(points), 20)

    def test_reproducible_ranks_are_micro_batches_bit_for_bit(self):
        losses = [[line["loss"] for line in self.lines("--reproducible", *how)[:-1]]
                  for how in (("-n", "2"), ("--micro-batches", "2"))]
        self.assertEqual(*losses)

    def test_pipelines_learn_the_same_and_draw_their_timeline(self):
        one = self.lines("--micro-batches", "4")
        for schedule in ("naive", "gpipe", "1f1b", "interleaved", "zb-h1"):
            svg, trace = self.path("timeline.svg"), self.path("timeline.json")
            chunks = ("--chunks", "2") if schedule == "interleaved" else ()
            two = self.lines("-n", "2", "--pp", "2", "--micro-batches", "4", "--schedule", schedule, *chunks,
                             "--trace", svg, "--trace", trace)
            for a, b in zip(one[:-1], two[:-1]):
                self.assertAlmostEqual(a["loss"] / b["loss"], 1, delta=1e-4)
            with open(trace) as file:
                trace = json.load(file)
            self.assertEqual(trace["otherData"]["schedule"], schedule)
            computed = [event for event in trace["traceEvents"]
                        if event["ph"] == "X" and event["tid"] == 0 and "chunk" in event["args"]]
            passes = {"interleaved": 2 * 2, "zb-h1": 3}.get(schedule, 2)
            self.assertEqual(len(computed), 2 * 4 * passes)
            self.assertIn(f"Step 20: pipeline {schedule} of {4 if chunks else 2} stages, " +
                          ("2 chunks a rank, " if chunks else "") + "4 micro-batches", words_of(svg))

    def test_traces_all_ranks_and_draws_them(self):
        trace, svg, again = self.path("step.json"), self.path("step.svg"), self.path("again.svg")
        done = self.train("-n", "2", "--zero", "3", "--trace", trace, "--trace", svg)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
        names = ["computes", "loss, norm", "replicas: gradients", "replicas: parameters"]
        for rank in range(2):
            # Two blocks, embedding and head, gathered for each pass.
            mine = [event for event in events if event["ph"] == "X" and event["pid"] == rank]
            self.assertEqual(sorted({rows[rank, event["tid"]] for event in mine}), names)
            gathered = [event["args"] for event in mine if event["cat"] == "all_gather"]
            self.assertEqual(sorted(call["label"] for call in gathered),
                             sorted(2 * ["embedding", "block.0", "block.1", "head"]))
            for call in gathered:
                self.assertEqual((call["communicator"], call["ranks"], call["purpose"]), ("replicas", 2, "parameters"))
                self.assertGreater(call["bytes"], 0)
                self.assertNotEqual(call["algorithm"], "")
            self.assertEqual(sum(event["cat"] == "reduce_scatter" for event in mine), 4)
        drawn = tutti("trace", trace, "-o", again)
        self.assertEqual((drawn.returncode, drawn.stderr), (0, ""))
        self.assertRegex(drawn.stdout, r"^Step 20: ZeRO-3 over 2 replicas: [\d.]+ ms\n")
        self.assertRegex(drawn.stdout, r"\n  rank 1  replicas: parameters +8 ")
        words = words_of(svg)
        self.assertLessEqual({"rank 0", "rank 1", *names, "all-gather", "reduce-scatter", "forward", "optimizer"}, set(words))
        self.assertEqual(words, words_of(again))
        self.assertIn("a Chrome trace can be drawn", tutti("trace", trace, "--json").stderr)
        self.assertIn("is a Chrome trace, which is drawn alone", tutti("trace", trace, trace).stderr)

    def refused(self, *arguments):
        """What `tutti train` says on stderr, once, before it starts a rank."""
        done = tutti("train", *arguments)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertNotIn("#", done.stdout, arguments)
        return done.stderr

    def test_says_what_is_wrong_once_and_before_ranks_start(self):
        for arguments, text in ((("-n", "1", "--tp", "65536", "--pp", "65536"), "pp 65536 x cp 1 x ep 1 x tp 65536"),
                                (("-n", "3"), "dp 3 x ep 1 x 1 micro-batches: 15 or 18 can"),
                                (("-n", "4", "--min-ranks", "2"),
                                 "of the 3 ranks that --min-ranks 2 allows: the batch of 16 sequences cannot be divided by dp 3 x "
                                 "ep 1 x 1 micro-batches: 15 or 18 can; --batch 24 can be divided by 2 to 4 ranks"),
                                (("-n", "2", "--heads", "5"), "the number of heads (5) does not divide the width (64)"),
                                (("-n", "2", "--svg", "/nowhere/x"), "--svg /nowhere/x: No such file or directory"),
                                (("-n", "2", "--json", "/nowhere/x"), "--json /nowhere/x: No such file or directory"),
                                (("-n", "2", "--json", "-"), "--json -: this command's text is on standard output"),
                                (("-n", "2", "--trace", "/nowhere/x.svg"), "--trace /nowhere/x.svg: No such file"),
                                (("-n", "2", "--save", self.text), "is a file: checkpoints need a folder"),
                                (("-n", "2", "--text", self.text, "--length", "100000"), "a sequence of 100000 needs"),
                                (("--layers", "2000000000"), "--layers"),
                                (("-n", "2", "--tp", "2", "--experts", "3", "--top-k", "4"), "a token goes to 4 of 3"),
                                (("-n", "2", "--zero", "1", "--wire-type", "bf16"), "choose bf16 weights, or DDP")):
            said = self.refused(*arguments)
            self.assertEqual(said.count(text), 1, said)
            self.assertNotIn("rank ", said.replace(text, ""))

    def test_numbers_that_are_none_name_their_option(self):
        """nan is neither below nor above a range."""
        options = re.findall(r"(--[a-z-]+)\S* .*FLOAT", tutti("train", "--help").stdout)
        self.assertGreaterEqual(len(options), 8, options)
        needed = {"--capacity": ("--experts", "2"), "--balance": ("--experts", "2")}
        for option in options:
            for value in "nan", "-nan", "inf", "-inf", "-1", "1e308":
                said = self.refused("-n", "2", *needed.get(option, ()), f"{option}={value}")
                self.assertRegex(said, f"{option}: .*{value}")

    def test_no_flag_is_ignored_in_silence(self):
        for arguments, text in ((("--keep-gathered",), "--keep-gathered is for --zero 3"),
                                (("--zero", "2", "--keep-gathered"), "--keep-gathered is for --zero 3"),
                                (("--zero", "1", "--bucket", "3"), "--bucket is for DDP"),
                                (("--data-parallel", "server", "--first-bucket", "3"), "--first-bucket is for DDP"),
                                (("--data-parallel", "server", "--wire-type", "bf16"), "--wire-type is for DDP"),
                                (("--bf16", "--type", "f32"), "contradict"),
                                (("--cp", "1", "--cp-mode", "ring"), "--cp-mode is for --cp above 1"),
                                (("--save-every", "2"), "--save DIR")):
            self.assertIn(text, self.refused("-n", "2", *arguments))

    def test_a_full_disk_is_an_error(self):
        for flag in ("--json", "--svg"):
            done = self.train("-n", "2", flag, "/dev/full")
            self.assertNotEqual(done.returncode, 0, flag)
            self.assertIn(f"{flag} /dev/full: No space left on device", done.stderr)

    def put_infinities(self, checkpoint):
        """Into the embeddings of rank 0's part, with the checksums that these then have."""
        def checksum(content):
            return hashlib.blake2b(content, digest_size=32).hexdigest()

        data, index = (os.path.join(checkpoint, "rank-00000" + suffix) for suffix in (".bin", ".json"))
        with open(index) as file:
            content = json.load(file)["content"]
        embeddings, end = content[0], content[1]["offset"]
        with open(data, "r+b") as file:
            file.write(struct.pack("<f", float("inf")) * embeddings["count"])
            file.seek(0)
            embeddings["checksum"] = checksum(file.read(end))
        text = json.dumps(content, separators=(",", ":"), sort_keys=True)
        with open(index, "w") as file:
            json.dump({"content": content, "checksum": checksum(text.encode())}, file)

    def test_stops_when_the_loss_is_no_number(self):
        folder = self.path("checkpoints")
        save = ("-n", "2", "--save", folder, "--save-every", "10")
        done = self.train(*save)
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(os.path.join(folder, "step-00000020"))
        self.put_infinities(os.path.join(folder, "step-00000010"))
        done = self.train(*save, "--resume")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, r"step 11: the loss is -?(nan|inf)")
        self.assertEqual(os.listdir(folder), ["step-00000010"])

    def test_prints_what_was_really_sent(self):
        summary = self.lines("-n", "2", "--zero", "1")[-1]["summary"]
        sent = summary["sent"]["replicas"]
        self.assertAlmostEqual(sent["sent"] / sent["formula"], 1, delta=0.2)
        self.assertGreater(summary["reserved_bytes"], sum(summary["formula_bytes"]) / 2)

    def test_says_what_is_wrong(self):
        for arguments, text in ((("--text", "/nowhere/book"), "--text /nowhere/book: there is no such file"),
                                (("-n", "2", "--batch", "3"), "the batch of 3 sequences cannot be divided by dp 2"),
                                (("--heads", "5"), "the number of heads (5) does not divide the width (64)"),
                                (("-n", "2", "--dp", "3"), "with dp 2 it fits"),
                                (("--chunks", "2"), "schedule 1f1b has 1 chunk a rank, not 2: use interleaved"),
                                (("-n", "2", "--pp", "2", "--schedule", "interleaved", "--chunks", "2",
                                  "--micro-batches", "1"), "1 is not a multiple of pp 2; the nearest that is: 2"),
                                (("-n", "2", "--pp", "2", "--layers", "1", "--chunks", "2", "--micro-batches", "2",
                                  "--schedule", "interleaved"), "3 units cannot be cut into 4 stages"),
                                (("--trace", "picture.png"), "--trace picture.png: the name ends in .svg"),
                                (("--data-parallel", "hope"), "hope"),
                                (("--bucket", "-1"), "--bucket: Value -1 not in range 0.001 to 4096")):
            done = tutti("train", *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    main()
