"""An ordinary torch_geometric training script.

It runs over Offpath with its import of NeighborLoader replaced, and nothing else:

    sed 's/from torch_geometric.loader/from offpath.graph/' examples/pyg_training.py | python -
"""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv

torch.manual_seed(12345)


def planted_classes(num_nodes=4000, num_classes=4, degree=10):
    """A graph whose neighbours mostly share a class, with features that tell classes apart poorly."""
    y = torch.randint(num_classes, (num_nodes,))
    by_class = [torch.nonzero(y == c).view(-1) for c in range(num_classes)]
    dst = torch.arange(num_nodes).repeat_interleave(degree)
    src = torch.randint(num_nodes, (num_nodes * degree,))
    alike = torch.rand(len(dst)) < 0.8
    for c, members in enumerate(by_class):
        chosen = alike & (y[dst] == c)
        src[chosen] = members[torch.randint(len(members), (int(chosen.sum()),))]
    means = torch.randn(num_classes, 16)
    order = torch.rand(num_nodes)
    return Data(
        x=means[y] * 0.5 + torch.randn(num_nodes, 16),
        edge_index=torch.stack([src, dst]),
        y=y,
        train_mask=order < 0.5,
        test_mask=order >= 0.5,
    )


class GraphSAGE(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden_channels)
        self.conv2 = SAGEConv(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()
        return self.conv2(x, edge_index)


data = planted_classes()
kwargs = dict(batch_size=256, num_workers=2, persistent_workers=True)
train_loader = NeighborLoader(
    data, num_neighbors=[10, 5], shuffle=True, input_nodes=data.train_mask, **kwargs
)
test_loader = NeighborLoader(data, num_neighbors=[-1, -1], input_nodes=data.test_mask, **kwargs)

model = GraphSAGE(data.num_features, 32, int(data.y.max()) + 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    model.train()
    total_loss = total_examples = 0
    for batch in train_loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        total_loss += float(loss) * batch.batch_size
        total_examples += batch.batch_size
    return total_loss / total_examples


@torch.no_grad()
def test(loader):
    model.eval()
    correct = total = 0
    for batch in loader:
        assert batch.test_mask[: batch.batch_size].all()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        correct += int((out.argmax(dim=-1) == batch.y[: batch.batch_size]).sum())
        total += batch.batch_size
    return correct / total


for epoch in range(1, 6):
    loss = train()
    print(f"Epoch: {epoch:02d}, Loss: {loss:.4f}, Test: {test(test_loader):.4f}")
