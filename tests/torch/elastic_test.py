"""Ranks die under torchrun, which starts them all again: the training goes on, and ends as if nothing had happened.

SEED=n chooses who dies and when. torchrun's store outlives the ranks: what the dead left in it must not
disturb those that come after.
"""

import glob
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import torch
import torch.distributed as dist
from elastic_program import train
from ranks import free_ports, run

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "elastic_program.py")
STEPS, MANY_STEPS = 6, 400
MARK = "ELASTIC_TEST_MARK"
# The same bits for any number of ranks that adds in the same order, also if DDP has its buckets in another order.
BITS = {"TUTTI_REPRODUCIBLE": "1"}


def undisturbed(rank, ranks, folder, steps=STEPS):
    os.environ.update(BITS)
    dist.init_process_group("tutti", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    return train(folder, steps, (), None, lambda state: None).tolist()


def expected(ranks, steps=STEPS):
    with tempfile.TemporaryDirectory() as folder:
        return run(ranks, undisturbed, folder, steps, init=False)[0]


def environment(**variables):
    """That of a job, by which its processes are found."""
    return {**os.environ, **BITS, MARK: uuid.uuid4().hex, **variables}


def alive(env):
    """The processes of a job."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if f"{MARK}={env[MARK]}".encode() in file.read().split(b"\0"):
                    found.append(int(path.split("/")[2]))
        except OSError:  # it has ended
            pass
    return found


def end(env):
    for process in alive(env):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def lines_of(folder):
    try:
        with open(os.path.join(folder, "log"), encoding="utf-8") as log:
            return log.read().splitlines()
    except FileNotFoundError:
        return []


def errors_of(folder):
    """The texts that survivors have written, by rank."""
    errors = []
    for path in sorted(glob.glob(os.path.join(folder, "error-*"))):
        with open(path, encoding="utf-8") as file:
            errors.append((int(os.path.basename(path).split("-")[1]), file.read()))
    return errors


def torchrun(folder, arguments, ranks, steps=STEPS, faults=()):
    return [sys.executable, "-m", "torch.distributed.run", *arguments, f"--nproc-per-node={ranks}", PROGRAM, folder,
            str(steps), *faults]


class Elastic(unittest.TestCase):
    def setUp(self):
        seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
        print(f"SEED={seed}", flush=True)
        self.random = random.Random(seed)

    def check(self, arguments, ranks, places):
        """A rank dies at each of `places`, one in each start; the last one in a step."""
        faults = [f"kill:{self.random.randrange(ranks)}:{place}" for place in places]
        dead, step = int(faults[-1].split(":")[1]), places[-1]
        env = environment()
        with tempfile.TemporaryDirectory() as folder:
            try:
                command = torchrun(folder, [f"--max-restarts={len(faults)}", *arguments], ranks, STEPS, faults)
                done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=400, check=False)
                text = f"{faults}\n{done.stdout}{done.stderr}{errors_of(folder)}"
                self.assertEqual(done.returncode, 0, text)
                self.assertEqual(alive(env), [], text)
            finally:
                end(env)
            self.assertEqual(lines_of(folder), [f"ranks {ranks} from step 0", f"ranks {ranks} from step {step}"], text)
            self.assertEqual(torch.load(os.path.join(folder, "result")).tolist(), expected(ranks), text)
            told = [(rank, error) for rank, error in errors_of(folder) if "all_reduce" in error]
            print(faults, told)
            self.assertEqual([rank for rank, _ in told], [rank for rank in range(ranks) if rank != dead], text)
            for rank, error in told:
                self.assertRegex(error, rf"^rank {rank}: all_reduce\(.*: rank {dead} \(process \d+ on .*\) is gone")

    def test_a_rank_dies_in_a_step(self):
        self.check(["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={free_ports(1)[0]}"], 2,
                   [self.random.randrange(1, STEPS)])

    def test_ranks_die_before_and_while_they_join(self):
        """Their number in the store of the rendezvous is then no multiple of the number of ranks."""
        self.check(["--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"], 3,
                   ["start", "group", self.random.randrange(1, STEPS)])

    def test_an_agent_joins_and_leaves(self):
        """One rank, then two, then one. A change of their number is no restart to torchrun: it counts failures alone."""
        # Without it a new agent of PyTorch 2.15, whatever the backend, waits in vain for the address of the ranks' store,
        # which the first one does not repeat.
        env = environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", ELASTIC_PAUSE="0.5")
        arguments = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_ports(1)[0]}",
                     "--rdzv-id=1", "--rdzv-conf=last_call_timeout=2", "--max-restarts=3"]
        with tempfile.TemporaryDirectory() as folder:
            def wait_for(ranks, agent):
                deadline = time.monotonic() + 150
                while not any(line.startswith(f"ranks {ranks} ") for line in lines_of(folder)):
                    self.assertIsNone(agent.poll(), lines_of(folder))
                    self.assertLess(time.monotonic(), deadline, lines_of(folder))
                    time.sleep(0.1)

            try:
                with open(os.path.join(folder, "output"), "w+", encoding="utf-8") as output:
                    command = torchrun(folder, arguments, 1, MANY_STEPS)
                    first = subprocess.Popen(command, env=env, stdout=output, stderr=output)
                    wait_for(1, first)
                    second = subprocess.Popen(command, env=env, stdout=output, stderr=output)
                    wait_for(2, first)
                    time.sleep(1)
                    second.terminate()
                    second.wait(60)
                    open(os.path.join(folder, "hurry"), "wb").close()
                    code = first.wait(200)
                    output.seek(0)
                    text = output.read()
                self.assertEqual(code, 0, text)
                self.assertEqual(alive(env), [], text)
            finally:
                end(env)
            print(lines_of(folder), errors_of(folder))
            starts = [line.split(" from")[0] for line in lines_of(folder)]
            self.assertEqual(starts, ["ranks 1", "ranks 2", "ranks 1"], text)
            alone = torch.tensor(expected(1, MANY_STEPS), dtype=torch.float64)
            difference = torch.load(os.path.join(folder, "result")) - alone
            self.assertLess(difference.abs().max().item(), 1e-9, text)  # two ranks add in another order than one


if __name__ == "__main__":
    unittest.main()
