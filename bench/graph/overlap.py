#!/usr/bin/env python3
"""How much of a batch's way a memory node hides: near at i8 over a link shaped to 1 Gbit/s.

A node on one core and a client on another that only receives and decodes, joined by a link between
two network namespaces. Nothing can be faster than the slower of the link and the node, so the limit
is the larger of two times, both measured in this run:

- the link's: the batches' bytes on the wire (the interface's counter, headers included) at the rate
  that a plain socket reaches over the same link, counted the same way;
- the node's: the processor time that a batch takes it, over its share of a core; the smaller of what
  it is over the link and over the same link with its shaping off. (By the clock the latter takes the
  same but for what else the machine does, which must not count as a limit: `node_alone_ms`.)

`near i8 1gbit`: the node has its core to itself, and the link is the slower by far. `near i8
balanced`: the node's quota is set so that the two times are equal, where a pipeline that does not
overlap them takes twice the limit. Runs of all kinds alternate; the repetition with the median
fraction is printed. Needs root, for the namespaces and the quota.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys

from rmat_data import make_arrays, make_store
from workers import machine

from offpath import link as links

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORKER = os.path.join(HERE, "overlap_worker.py")
RATE = "1gbit"
WARM_UP = 8
PLAIN = {"what": "plain", "warm_up": 16 << 20, "bytes": 128 << 20}
# What the node's time may be of the link's, for a balance; and what is aimed at.
BALANCE, AIM = (0.8, 1.25), (0.92, 1.08)
TRIES = 6


class Node:
    """A memory node behind the left end of a link."""

    def __init__(self, args, store, link, quota=None):
        self.quota = quota
        command = [
            args.offpath, "graph", "serve", store, "--json", "--quiet", "--cores", str(args.cores[0]),
            "--listen", f"{link.left.address}:0", "--unauthenticated",
        ]  # fmt: skip
        if quota is not None:
            command += ["--quota", f"{quota:.2f}"]
        self._process = link.left.popen(command, stdout=subprocess.PIPE, text=True)
        said = self._process.stdout.readline()
        if not said:
            raise SystemExit(f"the memory node ended with status {self._process.wait()}")
        said = json.loads(said)
        if quota is not None and not said["quota_set"]:
            raise SystemExit(f"the node's quota was not set: {said['message']}")
        self.address, self.pid = said["address"], self._process.pid

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Client:
    """The receiving process behind the right end, and a plain sender behind the left."""

    def __init__(self, args, store, link, stack):
        self._store, self._args = store, args
        sender = self._start(link.left, args.cores[0], "send", link.left.address)
        stack.callback(self._end, sender)
        self._plain = f"{link.left.address}:{int(sender.stdout.readline())}"
        self._process = self._start(link.right, args.cores[-1], "receive")
        stack.callback(self._end, self._process)
        self._read()

    def plain(self):
        """Bytes a second on the wire."""
        result = self._run(dict(PLAIN, address=self._plain))
        return result["wire_bytes"] / result["seconds"]

    def batches(self, node):
        seeds = os.path.join(self._args.data, "seeds.npy")
        task = {"what": "batches", "address": node.address, "node": node.pid, "store": self._store, "seeds": seeds}
        return self._run(dict(task, warm_up=WARM_UP, batches=self._args.batches))

    def _start(self, end, core, *arguments):
        command = ["taskset", "-c", str(core), sys.executable, WORKER, *arguments]
        return end.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _run(self, task):
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the client ended with status {self._process.wait()}")
        return json.loads(line)

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()


def node_time(result, quota):
    return result["node_s"] / result["batches"] / (1 if quota is None else quota / 100)


class Sample:
    """One repetition of one case; times are seconds a batch."""

    def __init__(self, rate, shaped, unshaped, quota):
        batches = shaped["batches"]
        self.shaped, self.rate = shaped, rate
        self.seconds = shaped["seconds"] / batches
        self.link = shaped["wire_bytes"] / batches / rate
        # The smaller: what else the machine does can only add to it, and must not raise the limit.
        self.node = min(node_time(unshaped, quota), node_time(shaped, quota))
        self.node_alone = unshaped["seconds"] / batches
        self.fraction = max(self.link, self.node) / self.seconds


def say(text):
    print(text, file=sys.stderr, flush=True)


def sample(client, link, node):
    rate = client.plain()
    shaped = client.batches(node)
    with link.unshaped():
        unshaped = client.batches(node)
    taken = Sample(rate, shaped, unshaped, node.quota)
    say(
        f"  {taken.seconds * 1e3:.1f} ms a batch, link {taken.link * 1e3:.1f}, node {taken.node * 1e3:.1f} "
        f"(alone {taken.node_alone * 1e3:.1f}), {rate * 8 / 1e6:.0f} Mbit/s: {taken.fraction:.3f}"
    )
    return taken


def balanced_node(args, store, link, client, free):
    """A node with the quota that makes its time a batch the link's."""
    first = sample(client, link, free)
    quota = 100 * first.node / first.link
    found = []  # (how far from a balance, quota)
    for _ in range(TRIES):
        node = Node(args, store, link, quota)
        with link.unshaped():
            taken = client.batches(node)
        balance = node_time(taken, quota) / first.link
        say(f"quota {quota:.1f}%: the node's time is {balance:.2f} of the link's")
        if AIM[0] <= balance <= AIM[1]:
            return node
        node.close()
        found.append((max(balance, 1 / balance), quota))
        quota *= balance
    # A busy machine: the nearest will do, and measure() sees whether it did.
    return Node(args, store, link, min(found)[1])


def line(case, samples, quota):
    fractions = [s.fraction for s in samples]
    middle = samples[fractions.index(statistics.median(fractions))]
    batches = middle.shaped["batches"]
    parts = {f"node_{p}_ms": round(middle.shaped[f"{p}_s"] / batches * 1e3, 3) for p in ("sample", "encode")}
    return {
        "bench": "graph-overlap",
        "case": case,
        "ours": round(middle.seconds * 1e3, 3),
        "unit": "ms/batch",
        "limit_fraction": round(middle.fraction, 4),
        "spread": [round(min(fractions), 4), round(max(fractions), 4)],
        "link_ms": round(middle.link * 1e3, 3),
        "node_ms": round(middle.node * 1e3, 3),
        "node_alone_ms": round(middle.node_alone * 1e3, 3),
        "quota_percent": None if quota is None else round(quota, 2),
        "link_mbit_s": round(middle.rate * 8 / 1e6, 1),
        "wire_bytes": round(middle.shaped["wire_bytes"] / batches),
        "payload_bytes": round(middle.shaped["payload_bytes"] / batches),
        **parts,
        "decode_ms": round(middle.shaped["decode_s"] / batches * 1e3, 3),
        "batches": batches,
        "samples": len(samples),
        "machine": machine(),
    }


def measure(args, store):
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(links.ShapedLink(RATE))
        client = Client(args, store, link, stack)
        free = Node(args, store, link)
        stack.callback(free.close)
        say("setting the quota")
        balanced = balanced_node(args, store, link, client, free)
        stack.callback(balanced.close)
        samples = {"near i8 1gbit": [], "near i8 balanced": []}
        for repetition in range(args.samples):
            for case, node in zip(samples, (free, balanced)):
                say(f"{case}, {repetition + 1} of {args.samples}")
                samples[case].append(sample(client, link, node))
    balance = statistics.median(s.node / s.link for s in samples["near i8 balanced"])
    if not BALANCE[0] <= balance <= BALANCE[1]:
        raise SystemExit(f"the node's time became {balance:.2f} of the link's: no balance; is the machine busy?")
    quotas = {"near i8 1gbit": None, "near i8 balanced": balanced.quota}
    return [line(case, taken, quotas[case]) for case, taken in samples.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--data", default=os.path.join(ROOT, "build", "bench", "rmat20"))
    parser.add_argument("--samples", type=int, default=7, help="an odd number of repetitions")
    parser.add_argument("--batches", type=int, default=80, help="of a repetition")
    parser.add_argument("--offpath", default=os.path.join(os.path.dirname(sys.executable), "offpath"))
    args = parser.parse_args()
    if args.samples % 2 == 0:
        parser.error("--samples must be odd")
    reason = links.unavailable_reason()
    if reason is not None:
        raise SystemExit(f"graph-overlap needs a shaped link: {reason}")
    # So that the node, the client and the link go too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args.cores = sorted(os.sched_getaffinity(0))
    if len(args.cores) < 2:
        raise SystemExit("graph-overlap needs two cores: one for the node, one for its client")
    make_arrays(args.data)
    for entry in measure(args, make_store(args.data)):
        if args.json:
            print(json.dumps(entry))
        else:
            print(
                f"{entry['case']:18} {entry['ours']:.1f} ms a batch; link {entry['link_ms']:.1f}, node "
                f"{entry['node_ms']:.1f}: {entry['limit_fraction']:.3f} of the limit "
                f"({entry['spread'][0]:.3f} to {entry['spread'][1]:.3f})"
            )


if __name__ == "__main__":
    main()
