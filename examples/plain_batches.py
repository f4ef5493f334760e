"""Batches as plain arrays, without torch: `python examples/plain_batches.py STORE`."""

import sys

from offpath.graph import Store, sample_batches

store = Store.open(sys.argv[1])
print(store)

batches = sample_batches(
    store, num_neighbors=[10, 5], input_nodes="train", batch_size=512, shuffle=True, seed=7,
    num_workers=2, tensors="numpy",
)  # fmt: skip
for batch in batches:
    row, col = batch.edges()
    features = batch.features()
    print(f"batch {batch.number}: {batch.batch_size} seeds, {len(batch.nodes())} nodes, {len(row)} edges, "
          f"features {features.shape}")  # fmt: skip
    if batch.number == 2:
        break
