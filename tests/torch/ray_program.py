"""A training by Ray Train's TorchTrainer with 2 workers: FOLDER STEPS [FAULT ...], as elastic_program.py's.

Ray writes its checkpoints to FOLDER/run. At the end FOLDER holds `result`.
"""

import os
import sys
import tempfile

import ray
from elastic_program import load, save, save_error, train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def worker(config):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank, folder = dist.get_rank(), config["folder"]
    assert dist.get_backend() == "tutti", dist.get_backend()

    def keep(state):
        with tempfile.TemporaryDirectory() as kept:
            if rank == 0:
                save(state, f"{kept}/state")
            ray.train.report({"step": state["step"]}, checkpoint=Checkpoint.from_directory(kept) if rank == 0 else None)

    state, checkpoint = None, ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as kept:
            state = load(f"{kept}/state")
    try:
        result = train(folder, config["steps"], config["faults"], state, keep)
    except dist.DistBackendError as error:
        save_error(folder, rank, error)
        raise
    if rank == 0:
        save(result, f"{folder}/result")


def main(folder, steps, *faults):
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=f"{folder}/ray", object_store_memory=100 << 20,
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}})
    trainer = TorchTrainer(worker, train_loop_config={"folder": folder, "steps": int(steps), "faults": faults},
                           torch_config=TorchConfig(backend="tutti", timeout_s=60),
                           scaling_config=ScalingConfig(num_workers=2),
                           run_config=RunConfig(name="run", storage_path=folder,
                                                failure_config=FailureConfig(max_failures=1)))
    print("metrics:", trainer.fit().metrics)
    print("ray", ray.__version__)
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
