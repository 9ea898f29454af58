"""How groups are made, and what is made of them."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_torch
from ranks import free_ports, run
from torch.distributed.device_mesh import init_device_mesh

HERE = os.path.dirname(os.path.abspath(__file__))


def total(group=None):
    data = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(data, group=group)
    return data.item()


def subgroups(rank, ranks):
    groups = [dist.new_group([0, 2]), dist.new_group([1, 2, 3]), dist.new_group([3, 0])]
    for members, group in (((0, 2), groups[0]), ((1, 2, 3), groups[1]), ((0, 3), groups[2])):
        if rank in members:
            assert total(group) == sum(members)
    dist.destroy_process_group(groups[0])
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    assert total(mesh["b"].get_group()) == (1 if rank < 2 else 5)
    assert total(mesh["a"].get_group()) == (2 if rank % 2 == 0 else 4)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "tutti" and backend.supports_splitting and backend.supports_coalescing
    assert total() == sum(range(ranks))


def split(rank, ranks):
    pg = dist.group.WORLD.split_group([0, 1] if rank < 2 else [2, 3], timeout=timedelta(seconds=20), group_name="half")
    data = torch.tensor([float(rank)])
    pg.allreduce([data]).wait()
    assert data.item() == (1 if rank < 2 else 5), data
    if torch.__version__ >= (2, 15):  # older ones want a GPU here
        assert total(dist.split_group(split_ranks=[[0, 1], [2, 3]])) == (1 if rank < 2 else 5)


def shrink(rank, ranks):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_shrinking
    if rank == 1:
        dist.distributed_c10d._get_default_store().wait(["shrunk"])
        return
    smaller = backend.shrink([1])
    assert smaller.size() == ranks - 1 and smaller.rank() == (0 if rank == 0 else rank - 1)
    data = torch.tensor([float(rank)])
    smaller.allreduce([data]).wait()
    assert data.item() == sum(range(ranks)) - 1
    store = dist.distributed_c10d._get_default_store()
    if hasattr(dist, "shrink_group"):
        data = torch.tensor([float(rank)])
        dist.all_reduce(data, group=dist.shrink_group([1]))
        assert data.item() == sum(range(ranks)) - 1
    store.set("shrunk", "1")


def again(rank, ranks, folder):
    """Groups one after the other in one process, by each way to find the others."""
    for turn in range(3):
        dist.init_process_group("tutti", init_method=f"file://{folder}/{turn}", rank=rank, world_size=ranks)
        assert total() == sum(range(ranks))
        dist.destroy_process_group()
    store = dist.FileStore(f"{folder}/one store", ranks)
    for _ in range(2):  # the same store, under the same name
        dist.init_process_group("cpu:tutti", store=store, rank=rank, world_size=ranks)
        assert total() == sum(range(ranks))
        dist.destroy_process_group()


def beside_a_gpu_backend(rank, ranks, folder):
    """The string that stands for NCCL's users: NCCL itself needs a GPU, so another backend has its place here."""
    dist.init_process_group("cpu:tutti,cuda:gloo", init_method=f"file://{folder}/s", rank=rank, world_size=ranks)
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "tutti"
    assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "gloo"
    assert total() == sum(range(ranks))
    assert total(dist.new_group(list(range(ranks)))) == sum(range(ranks))
    objects = [None] * ranks
    dist.all_gather_object(objects, rank)
    assert objects == list(range(ranks))
    dist.barrier()
    dist.destroy_process_group()


def by_address(rank, ranks, ports):
    dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{ports[0]}", rank=rank, world_size=ranks)
    assert total() == sum(range(ranks))
    dist.destroy_process_group()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ports[1]))
    dist.init_process_group("tutti")
    assert total() == sum(range(ranks))
    dist.destroy_process_group()


class Groups(unittest.TestCase):
    def test_subgroups_and_meshes(self):
        run(4, subgroups)

    @unittest.skipUnless(hasattr(dist.ProcessGroup, "split_group"), "this version of torch has it for GPUs only")
    def test_split(self):
        run(4, split)

    @unittest.skipUnless(hasattr(torch._C._distributed_c10d.Backend, "supports_shrinking"), "newer versions only")
    def test_shrink(self):
        run(3, shrink)

    def test_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run(2, again, folder, init=False)

    def test_beside_a_gpu_backend(self):
        with tempfile.TemporaryDirectory() as folder:
            run(2, beside_a_gpu_backend, folder, init=False)

    def test_by_address_and_environment(self):
        run(2, by_address, free_ports(2), init=False)

    def test_torchrun(self):
        """Also a restart: rank 1 dies in the first attempt."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                                   "--max-restarts=1", os.path.join(HERE, "torchrun_program.py"), folder],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("attempt 1: sum 3.0", done.stdout)

    def test_example(self):
        program = os.path.join(HERE, "../../docs/examples/torch_ddp.py")
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                               program], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        first, last = (float(re.search(rf"step {step}: loss ([\d.]+)", done.stdout)[1]) for step in (0, 100))
        self.assertLess(last, first / 2)  # it learns
        self.assertIn("an all-reduce went by", done.stdout)

    def test_debug_wrapper(self):
        env = dict(os.environ, TORCH_DISTRIBUTED_DEBUG="DETAIL")
        code = ("import sys; sys.path.insert(0, sys.argv[1])\n"
                "import groups_test, ranks; ranks.run(2, groups_test.wrapped)")
        done = subprocess.run([sys.executable, "-c", code, HERE], env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_spawn(self):
        import torch.multiprocessing as mp

        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(spawned, (folder,), nprocs=2)


def wrapped(rank, ranks):
    assert total() == sum(range(ranks))


def spawned(rank, folder):
    dist.init_process_group("tutti", init_method=f"file://{folder}/s", rank=rank, world_size=2)
    assert total() == 1
    dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
