"""The two ends of the overlap benchmark that are not the memory node: processes behind a link's ends.

`overlap_worker.py receive` reads one JSON object a line and answers each with one:

- {"what": "batches", "address", "node", "store", "seeds", "warm_up", "batches"}: receives and decodes batches
  of the node with that pid, and measures from the end of the warm-up on.
- {"what": "plain", "address", "warm_up", "bytes"}: the same for bytes of an ordinary socket.

Answers hold "seconds", "wire_bytes" (the interface's counter, headers included), and what was received.

`overlap_worker.py send HOST` prints its port, and sends zeros to whoever connects, for as long as they read.
"""

import json
import os
import socket
import sys
import time

import numpy as np

FANOUTS, BATCH_SIZE = [15, 10, 5], 1024
CHUNK = 1 << 20


def wire_bytes():
    """That the link brought so far: of this process's namespace, which /sys does not show."""
    with open("/proc/self/net/dev", encoding="ascii") as counters:
        line = next(line for line in counters if line.strip().startswith("veth0:"))
    return int(line.partition(":")[2].split()[0])


def processor_seconds(pid):
    """Of all its threads, the kernel's part included."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Span:
    """What went by from its making to end()."""

    def __init__(self, pid=None):
        self._pid = pid
        self._began = (time.perf_counter(), wire_bytes(), self._processor())

    def end(self):
        seconds, wire, processor = (
            now - then
            for now, then in zip((time.perf_counter(), wire_bytes(), self._processor()), self._began)
        )
        out = {"seconds": seconds, "wire_bytes": wire}
        return out if self._pid is None else dict(out, node_s=processor)

    def _processor(self):
        return 0.0 if self._pid is None else processor_seconds(self._pid)


def check(batch, plan, store):
    """What is timed is right: the first batch is the bits that the plan makes in this process."""
    from offpath import _core

    source = _core.LocalSource(_core.Store.open(store), plan)
    source.begin(0)
    local = source.next()
    assert len(np.asarray(local.row(0))) > 0
    for field in ("node_ids", "row", "col", "features"):
        ours, expected = (np.asarray(getattr(b, field)(0)) for b in (batch, local))
        assert np.array_equal(ours, expected), f"{field} differ from those made in this process"


def receive_batches(task):
    from offpath import _core

    plan = _core.BatchPlan()
    plan.fanouts = [FANOUTS]
    plan.batch_size = BATCH_SIZE
    plan.drop_last = True
    plan.seed = 1
    plan.with_edge_ids = False
    plan.set_feature_format("i8")
    plan.set_nodes(np.load(task["seeds"]))
    source = _core.RemoteSource(task["address"], plan)
    count = task["warm_up"] + task["batches"]
    # Batches beyond the span keep it steady to its end.
    if source.num_batches < count + 8:
        raise SystemExit(f"{count} batches and 8 to follow: an epoch has {source.num_batches}")
    source.begin(0)
    check(source.next(), plan, task["store"])
    for _ in range(task["warm_up"] - 1):
        source.next()
    span = Span(task["node"])
    payload = 0
    parts = dict.fromkeys(("sample", "encode", "decode"), 0.0)
    for _ in range(task["batches"]):
        costs = source.next().costs()
        payload += costs["bytes_received"]
        for part in parts:
            parts[part] += costs[f"{part}_ns"] / 1e9
    result = span.end()
    if source.stats()["reconnects"] != 0:
        raise SystemExit("the connection was lost on the way")
    return dict(result, batches=task["batches"], payload_bytes=payload, **{f"{p}_s": s for p, s in parts.items()})


def receive_plain(task):
    host, port = task["address"].rsplit(":", 1)
    buffer = memoryview(bytearray(CHUNK))

    def receive(connection, count):
        while count > 0:
            arrived = connection.recv_into(buffer, min(count, CHUNK))
            if arrived == 0:
                raise SystemExit("the plain sender ended")
            count -= arrived

    with socket.create_connection((host, int(port)), timeout=30) as connection:
        receive(connection, task["warm_up"])
        span = Span()
        receive(connection, task["bytes"])
        return dict(span.end(), payload_bytes=task["bytes"])


def send(host):
    zeros = memoryview(bytes(CHUNK))
    with socket.create_server((host, 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(zeros)
                except OSError:
                    pass  # they have read enough


def main():
    if sys.argv[1] == "send":
        send(sys.argv[2])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        result = receive_batches(task) if task["what"] == "batches" else receive_plain(task)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
