"""What others see of our calls: the profiler's events and the flight recorder's entries."""

import json
import unittest

import torch
import torch.distributed as dist
from ranks import run
from torch._C import _distributed_c10d as c10d


def events_of(body):
    """The profiler's events of our backend: name → shapes of the inputs, one for each event."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        body()
    events = {}
    for event in profiler.events():
        if event.name.startswith("tutti:"):
            events.setdefault(event.name, []).append(event.input_shapes)
    return events


def shapes(rank, ranks):
    a, b = torch.ones(2, 3), torch.ones(4)
    outputs = [torch.empty(4) for _ in range(ranks)]
    root = rank == 1
    expected = {
        "tutti:all_reduce": (lambda: dist.all_reduce(a), [[2, 3]]),
        "tutti:broadcast": (lambda: dist.broadcast(a, 0), [[2, 3]]),
        "tutti:reduce": (lambda: dist.reduce(a, 1), [[2, 3]]),
        "tutti:all_gather": (lambda: dist.all_gather(outputs, b), [[4]]),
        "tutti:gather": (lambda: dist.gather(b, outputs if root else None, 1), [[4]]),
        "tutti:scatter": (lambda: dist.scatter(b, outputs if root else None, 1), [[4]] * ranks if root else []),
        "tutti:reduce_scatter": (lambda: dist.reduce_scatter(b, outputs), [[4]] * ranks),
        "tutti:all_to_all": (lambda: dist.all_to_all_single(torch.empty(ranks), torch.ones(ranks)), [[ranks]]),
        "tutti:barrier": (dist.barrier, []),
    }
    for name, (call, shape) in expected.items():
        assert events_of(call) == {name: [shape]}, (name, events_of(call))
    events = events_of(lambda: dist.all_reduce(a, async_op=True).wait())
    assert events == {"tutti:all_reduce": [[[2, 3]]]}, events


def together(rank, ranks):
    """Several tensors in one call are one event."""
    five = [torch.ones(i + 1) for i in range(5)]
    shape = [[i + 1] for i in range(5)]
    group = dist.group.WORLD
    events = events_of(lambda: group.allreduce_coalesced(five).wait())
    assert events == {"tutti:all_reduce": [shape]}, events
    lists = [[torch.empty(i + 1) for i in range(5)] for _ in range(ranks)]
    events = events_of(lambda: dist.all_gather_coalesced(lists, five))
    assert events == {"tutti:all_gather": [shape]}, events

    def managed():
        with dist._coalescing_manager():
            for tensor in five:
                dist.all_gather_into_tensor(torch.empty(ranks * len(tensor)), tensor)

    events = events_of(managed)
    assert events == {"tutti:all_gather": [shape]}, events


def messages(rank, ranks):
    def exchange():
        if rank == 0:
            dist.send(torch.ones(3), 1)
            dist.send(torch.ones(3), 1)
        elif rank == 1:
            dist.recv(torch.empty(3), 0)
            dist.recv(torch.empty(3))

    events = events_of(exchange)
    if rank == 0:
        assert events == {"tutti:send": [[[3]]] * 2}, events
    elif rank == 1:
        assert events == {"tutti:recv": [[[3]]], "tutti:recvAnySource": [[[3]]]}, events


def recorded(rank, ranks):
    store = dist.distributed_c10d._get_default_store()
    for _ in range(3):
        dist.all_reduce(torch.ones(3, 4))
    dist.all_gather([torch.empty(2) for _ in range(ranks)], torch.ones(2), async_op=True).wait()
    if rank == 0:
        dist.send(torch.ones(5), 1)
    elif rank == 1:
        dist.recv(torch.empty(5), 0)
    dist.barrier()
    stuck = dist.all_reduce(torch.ones(7), async_op=True) if rank == 0 else None
    trace = json.loads(c10d._dump_fr_trace_json(includeCollectives=True, onlyActive=False, backend="tutti"))
    if rank == 0:
        pickled = c10d._dump_fr_trace(includeCollectives=True, backend="tutti")
        assert b"tutti:all_reduce" in pickled
    store.add("looked", 1)
    while store.add("looked", 0) < ranks:
        pass
    if stuck is None:
        dist.all_reduce(torch.ones(7))
    else:
        stuck.wait()
    return trace


class Observers(unittest.TestCase):
    def test_the_profiler_sees_shapes(self):
        run(3, shapes)

    def test_a_call_of_several_tensors_is_one_event(self):
        run(2, together)

    def test_the_profiler_sees_messages(self):
        run(2, messages)

    @unittest.skipUnless(hasattr(c10d, "FlightRecorderHook"), "this torch records calls of its own backends only")
    def test_the_flight_recorder_holds_our_calls(self):
        traces = run(2, recorded)
        for rank, trace in enumerate(traces):
            entries = [(e["profiling_name"], e["state"], e["input_sizes"]) for e in trace["entries"]]
            done = [("tutti:all_reduce", "completed", [[3, 4]])] * 3 + [("tutti:all_gather", "completed", [[2]])]
            done += [("tutti:send 0->1", "completed", [[5]]) if rank == 0 else ("tutti:recv 1<-0", "completed", [])]
            self.assertEqual(entries[:5], done)
            self.assertEqual(entries[5][:2], ("tutti:barrier", "completed"))
            self.assertEqual(entries[6:], [("tutti:all_reduce", "scheduled", [[7]])] if rank == 0 else [])
            self.assertEqual(trace["pg_config"]["0"]["desc"], "default_pg")


if __name__ == "__main__":
    unittest.main()
