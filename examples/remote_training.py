"""Trains from a memory node: `python examples/remote_training.py STORE`.

The node is a process of its own, here on the same machine; elsewhere it is started with
`offpath graph serve STORE --listen HOST:PORT`, and the rest stays as it is.
"""

import json
import shutil
import subprocess
import sys

import torch
import torch.nn.functional as F

from offpath.graph import NeighborLoader, open_graph
from torch_geometric.nn import SAGEConv

store = sys.argv[1]
node = subprocess.Popen(
    [shutil.which("offpath"), "graph", "serve", store, "--listen", "127.0.0.1:0", "--features", "i8", "--json"],
    stdout=subprocess.PIPE,
    text=True,
)
try:
    url = "offpath://" + json.loads(node.stdout.readline())["address"]
    info = open_graph(url).nodes[0]
    loader = NeighborLoader(url, [10, 5], input_nodes="train", batch_size=512, shuffle=True)

    conv1 = SAGEConv(info.feature_dim, 64)
    conv2 = SAGEConv(64, info.num_classes)
    optimizer = torch.optim.Adam([*conv1.parameters(), *conv2.parameters()], lr=0.01)
    for epoch in range(3):
        for batch in loader:
            optimizer.zero_grad()
            out = conv2(conv1(batch.x, batch.edge_index).relu(), batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
finally:
    node.terminate()
    node.wait(timeout=15)
