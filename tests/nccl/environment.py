#!/usr/bin/env python3
"""NCCL's environment variables through libnccl.so.2.

    environment.py PROGRAM      the program of first.c
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

program = sys.argv[1]
problems = []


def run(expect_log: list[str], never: tuple[str, ...] = (), refused: bool = False, **variables: str) -> str:
    """Runs two ranks; both must succeed, or with `refused` fail, and the log must have these words."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "TUTTI_"))}
    done = subprocess.run([program, "2"], env=environment | variables, capture_output=True, text=True, timeout=100)
    text = done.stdout + done.stderr
    if refused != (done.returncode != 0 or done.stdout.count("the sum is 3") != 2):
        problems.append(f"{variables}: status {done.returncode}\n{text}")
    problems.extend(f"{variables}: the log lacks {word!r}:\n{text}" for word in expect_log if word not in text)
    problems.extend(f"{variables}: the log has {word!r}:\n{text}" for word in never if word in text)
    return text


run([], never=("tutti",))
run(["answers as NCCL 23007"], NCCL_DEBUG="INFO")
run(["answers as NCCL 22809", "NCCL 22809, the sum"], NCCL_DEBUG="VERSION", TUTTI_NCCL_VERSION="22809")
run(["is ignored: it is VERSION"], NCCL_DEBUG="LOUD")
run(["one_shot over tcp"], never=("over shm",), NCCL_DEBUG="TRACE", NCCL_SHM_DISABLE="1")
run(["ring"], NCCL_DEBUG="TRACE", NCCL_ALGO="Ring")
run(["NCCL_ALGO=NVLS is ignored"], NCCL_ALGO="NVLS")
run(["double_tree"], NCCL_DEBUG="TRACE", NCCL_ALGO="Tree")
run(["NCCL_TOPO_FILE=/topology.xml is not read"], NCCL_TOPO_FILE="/topology.xml")
run(["NCCL_IB_HCA=^mlx5_0 is ignored"], NCCL_IB_HCA="^mlx5_0")
run([], never=("ignored",), NCCL_IB_HCA="mlx5_0,mlx5_1")
run([], NCCL_P2P_DISABLE="1", NCCL_BUFFSIZE="1048576", NCCL_IB_DISABLE="1")
run(["NCCL_BUFFSIZE is ignored"], NCCL_BUFFSIZE="12")
run([], NCCL_SOCKET_IFNAME="lo", NCCL_SHM_DISABLE="1")
run([], never=("tutti",), NCCL_NVLS_ENABLE="0")
text = run(["NCCL_NVLS_CHUNKSIZE is set and ignored"], NCCL_NVLS_CHUNKSIZE="0")
if text.count("NCCL_NVLS_CHUNKSIZE") != 2:
    problems.append(f"a variable without a meaning is named once by each of 2 processes:\n{text}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def disturb(port: int, sent: bytes, keeps: list[socket.socket], stop: threading.Event) -> None:
    """A stranger at that port: a health check (nothing is sent), a scan, or one that stays."""
    while not stop.is_set():
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
            stranger.sendall(sent)
        except OSError:
            time.sleep(0.001)
            continue
        if len(keeps) < 100:
            keeps.append(stranger)
        else:
            stranger.close()


run([], NCCL_COMM_ID=f"127.0.0.1:{free_port()}")
for sent in b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(300), b"tutti: NCCL_COMM_ID, 1.", bytes(10000):
    port, stop, keeps = free_port(), threading.Event(), []
    strangers = [threading.Thread(target=disturb, args=(port, sent, keeps, stop)) for _ in range(2)]
    for stranger in strangers:
        stranger.start()
    run([], NCCL_COMM_ID=f"127.0.0.1:{port}", TUTTI_INIT_TIMEOUT="30")
    stop.set()
    for stranger in strangers:
        stranger.join()
for port in "0", "65536", "70000", "-1", "x", "":
    run(["with a port from 1 to 65535"], refused=True, NCCL_COMM_ID=f"127.0.0.1:{port}")
with tempfile.TemporaryDirectory() as folder:
    run([], never=("answers as",), NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=f"{folder}/log.%p")
    logs = list(pathlib.Path(folder).iterdir())
    if len(logs) != 2 or not all("answers as NCCL" in log.read_text() for log in logs):
        problems.append(f"NCCL_DEBUG_FILE: {logs}")
print("\n".join(problems) or "NCCL's variables: honoured or named")
sys.exit(bool(problems))
