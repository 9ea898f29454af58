"""TUTTI_LOG: the messages on communicators and calls at each level, and none otherwise."""

import re
import unittest

from support import TUTTI, main, tutti


def told(level, *arguments, np="3", env=None):
    """The library's messages on stderr in a successful run: level and text of each."""
    done = tutti("perf", *arguments, "--np", np, "-n", "2", "-w", "1", "-c", "0",
                 env={"TUTTI_LOG": level, **(env or {})})
    assert done.returncode == 0, done.stderr
    return [tuple(message) for message in
            re.findall(r"^\S+ \S+ tutti \d+ (\w+): (.*(?:\n  .*)*)", done.stderr, re.MULTILINE)]


class Log(unittest.TestCase):
    def test_is_silent_after_success_at_warn(self):
        self.assertEqual(told("warn", "all_reduce", "-e", "1K"), [])

    def test_has_one_block_for_a_communicator_at_info(self):
        (level, block), = told("info", "all_reduce", "-e", "1K")
        self.assertEqual(level, "info")
        for words in (r"^communicator of 3 ranks \(tutti [\d.]+\)\n", r"\n  ranks: 0-2 on \S+ \(3 processes\)\n",
                      r"\n  between processes of a host: shm \(local: .+\)\n", r"\n  others' buffers: .+\n",
                      r"\n  groups: (none|3 ranks in .* that share a cache each.*)\n", r"\n  staging memory of a rank: 32M\n", r"\n  waiting: .+\n",
                      r"\n    all_reduce: \w+", r"\n    broadcast: \w+"):
            self.assertRegex(block, words)

    def test_a_file_that_cannot_be_written_is_named(self):
        env = {"TUTTI_LOG": "info", "TUTTI_LOG_FILE": "/dev/null/log"}
        done = tutti("perf", "barrier", "-t", "1", "-n", "1", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"warning: TUTTI_LOG_FILE is not used, and the log is written here: .*/dev/null/log")
        self.assertIn("info: communicator of 1 rank", done.stderr)

    def test_names_ranks_where_they_differ(self):
        done = tutti("run", "-n", "3", "--", "sh", "-c",
                     "[ $TUTTI_RANK != 1 ] || export TUTTI_ARENA=1M; exec $0 perf barrier -n 1",
                     TUTTI, env={"TUTTI_LOG": "info"})
        self.assertIn("staging memory of a rank: 1M (rank 1), 32M (ranks 0, 2)\n", done.stderr)

    def test_gives_the_reason_for_a_transport(self):
        texts = [text for _, text in told("info", "barrier", env={"TUTTI_TRANSPORT": "tcp"})]
        block, = (text for text in texts if text.startswith("communicator"))
        self.assertRegex(block, r"between processes of a host: tcp \(.*TUTTI_TRANSPORT is tcp")

    def test_has_the_first_choice_for_each_size_at_debug(self):
        messages = [text for level, text in told("debug", "all_reduce", "-b", "8", "-e", "4M", "-f", "1000")
                    if level == "debug"]
        for rank in range(3):
            for count in 2, 2000:
                mine = [text for text in messages if text.startswith(f"rank {rank}: first all_reduce(count={count}, f32, sum): ")]
                self.assertEqual(len(mine), 1, messages)  # in place and out of place are the same call here
                self.assertRegex(mine[0], r": \w+ by lanes over shm \(the model says \w+ [\d.]+ [um]s, next \w+ [\d.]+ [um]s\); "
                                 r"\S+ \(.+\)$")
        self.assertIn("inline (inline: 8 bytes fit into the message's descriptor)",
                      next(text for text in messages if "count=2," in text))

    def test_names_the_setting_that_forces_an_algorithm(self):
        messages = told("debug", "broadcast", "-e", "8", env={"TUTTI_ALGO": "broadcast:binomial"})
        self.assertTrue(any("binomial by lanes over shm (TUTTI_ALGO forces it)" in text for _, text in messages), messages)

    def test_has_every_call_at_trace(self):
        calls = [text for level, text in told("trace", "all_reduce", "-b", "8", "-e", "8", np="2") if level == "trace"]
        mine = [text for text in calls if text.startswith("rank 1: ")]
        reductions = [text for text in mine if "all_reduce(count=2, f32, sum): " in text]
        self.assertEqual(len(reductions), 2 * (1 + 2), mine)  # out of place and in place: warm-up and timed calls
        for text in reductions:
            self.assertRegex(text, r"^rank 1: call \d+ all_reduce\(count=2, f32, sum\): \w+ over shm, [\d.]+ us$")
        numbers = [int(re.search(r"call (\d+)", text).group(1)) for text in mine]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_has_transfers_too(self):
        calls = [text for _, text in told("trace", "sendrecv", "-b", "8", "-e", "8", np="2")]
        self.assertTrue(any(re.match(r"rank 0: send\(count=2, f32, to rank 1\): direct over shm, [\d.]+ us$", text)
                            for text in calls), calls)


if __name__ == "__main__":
    main()
