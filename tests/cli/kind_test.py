"""A file of another kind than a command or a variable wants: the error says what it is."""

import os
import tempfile
import unittest

from support import main, tutti

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "topologies", "nccl-pcie-2-sockets.xml")
PROFILE = '{"format": "tutti-profile", "version": 1, "links": {}, "measured": []}'


class Kinds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.files = {kind: os.path.join(folder.name, kind + ".json") for kind in ("plan", "topology", "table", "synth", "profile")}
        for words in (("plan", "export", "ring", "-n", "4", "-o", self.files["plan"]),
                      ("topo", "--import", SAMPLE, "--json", self.files["topology"]),
                      ("explain", "all_reduce", "-n", "4", "-o", self.files["table"]),
                      ("plan", "synth", "all_gather", "--topo", SAMPLE, "--json", self.files["synth"])):
            self.assertEqual(tutti(*words).returncode, 0, words)
        with open(self.files["profile"], "w") as file:
            file.write(PROFILE)
        self.files["xml"] = SAMPLE

    def check(self, wanted, words, variable=None):
        of_kind = {"plan": "a plan (", "topology": "a topology (", "table": "the table of `tutti explain`",
                   "synth": "the table of `tutti plan synth`", "profile": "a profile (", "xml": "XML"}
        for kind, path in self.files.items():
            if kind == wanted or (wanted == "topology" and kind == "xml"):
                continue
            done = tutti(*words, env={variable: path}) if variable else tutti(*words, path)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{path} is {of_kind[kind]}", done.stderr)
            self.assertIn(f", where {of_kind.get(wanted, wanted)}", done.stderr)

    def test_what_it_is_and_what_is_wanted(self):
        self.check("topology", ("topo", "--import"))
        self.check("topology", ("plan", "synth", "all_gather", "--topo"))
        self.check("plan", ("plan", "verify"))
        self.check("plan", ("perf", "all_reduce", "-t", "2", "-e", "8", "-n", "1"), "TUTTI_PLAN")
        self.check("profile", ("explain", "all_reduce"), "TUTTI_PROFILE")
        self.check("a trace", ("trace",))


if __name__ == "__main__":
    main()
