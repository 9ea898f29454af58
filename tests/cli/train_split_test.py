"""tutti train: the kinds of parallelism that split layers (skipped in builds without the training layer)."""

import json
import tempfile
import unittest

from support import main, tutti

SMALL = "--steps 3 --layers 2 --width 32 --length 32 --batch 4".split()


def losses(*flags):
    with tempfile.TemporaryDirectory() as folder:
        done = tutti("train", *SMALL, *flags, "--json", folder + "/log.jsonl")
        assert done.returncode == 0, done.stderr
        with open(folder + "/log.jsonl") as file:
            lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if "loss" in line], done.stdout, lines[-1]["summary"]


@unittest.skipIf("--tp" not in tutti("train", "--help").stdout, "built without the training layer")
class TrainSplit(unittest.TestCase):
    def test_every_kind_has_the_losses_of_one_process(self):
        one, _, _ = losses("-n", "1")
        for flags in ("--tp 2", "--tp 2 --sp", "--cp 2", "--cp 2 --cp-mode ulysses"):
            split, _, summary = losses("-n", "2", *flags.split())
            for a, b in zip(one, split, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4 * a, msg=flags)
            axis = "context" if "--cp" in flags else "sequence" if "--sp" in flags else "tensor"
            self.assertGreater(summary["traffic"][axis]["sent"], 0, flags)

    def test_experts_are_reported(self):
        one, _, _ = losses("-n", "1", "--experts", "4")
        split, printed, summary = losses("-n", "2", "--ep", "2", "--experts", "4")
        for a, b in zip(one, split, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)
        self.assertRegex(printed, r"imbalance\n +1 ")
        self.assertRegex(printed, r"# block\.1\.mlp: last step's load-balance loss [0-9.]+, dropped 0\.0 %, tokens of each")
        self.assertEqual(sum(summary["experts"]["block.0.mlp"]["chosen"]), 4 * 32 * 2)
        _, printed, _ = losses("-n", "1", "--experts", "4", "--top-k", "1", "--capacity", "0.5")
        self.assertNotIn("dropped 0.0 %", printed)

    def test_impossible_combinations_say_why(self):
        for flags, text in (
            ("-n 3 --tp 3", "tp (3) does not divide the number of heads (4); what does: 1, 2, 4"),
            ("-n 3 --tp 2", "tp 2 has 2 ranks, but there are 3"),
            ("-n 2 --tp 1 --sp", "it needs tp above 1"),
            ("-n 2 --sp", "--sp requires --tp"),
            ("-n 3 --cp 3", "2 x cp (6) does not divide the length of a sequence (32)"),
            ("-n 2 --ep 2", "--ep requires --experts"),
            ("-n 2 --ep 2 --experts 3", "ep (2) does not divide the number of experts (3); what does: 1, 3"),
            ("-n 1 --experts 2 --top-k 3", "a token goes to 3 of 2 experts"),
            ("-n 2 --ep 2 --experts 2 --data-parallel server", "the parameter server knows no expert parallelism"),
        ):
            done = tutti("train", *SMALL, *flags.split())
            self.assertNotEqual(done.returncode, 0, flags)
            self.assertIn(text, done.stderr, flags)


if __name__ == "__main__":
    main()
