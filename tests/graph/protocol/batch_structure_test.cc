#include "offpath/graph/protocol/batch_structure.h"

#include <gtest/gtest.h>

#include <random>

#include "offpath/base/error.h"
#include "offpath/graph/sample/sampler.h"
#include "tests/base/expect_error.h"

namespace offpath::graph {
namespace {

// A random heterogeneous graph in memory: two node types, three edge types.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) {
    std::mt19937_64 random(seed);
    counts_ = {int64_t{1} + static_cast<int64_t>(random() % 300),
               int64_t{1} + static_cast<int64_t>(random() % 40)};
    for (const auto& [src, dst] : {std::pair<size_t, size_t>{0, 0}, {1, 0}, {0, 1}}) {
      auto& edges = lists_.emplace_back();
      edges.indptr.push_back(0);
      for (int64_t v = 0; v < counts_[dst]; ++v) {
        for (uint64_t k = random() % 12; k-- > 0;) {
          edges.indices.push_back(
              static_cast<uint32_t>(random() % static_cast<uint64_t>(counts_[src])));
        }
        edges.indptr.push_back(static_cast<int64_t>(edges.indices.size()));
      }
      ends_.push_back({src, dst});
    }
  }

  SampleGraph View() const {
    SampleGraph graph;
    graph.node_counts = counts_;
    for (size_t e = 0; e < lists_.size(); ++e) {
      CscView csc;
      csc.indptr = lists_[e].indptr.data();
      csc.indices = {lists_[e].indices.data(), lists_[e].indices.size(), true};
      csc.num_edges = static_cast<int64_t>(lists_[e].indices.size());
      csc.num_src = counts_[ends_[e].first];
      csc.num_dst = counts_[ends_[e].second];
      graph.relations.push_back({csc, ends_[e].first, ends_[e].second, "random"});
    }
    return graph;
  }

  StructureShape Shape() const {
    StructureShape shape;
    shape.node_counts = counts_;
    for (const auto& [src, dst] : ends_) shape.edge_types.push_back({src, dst});
    return shape;
  }

  int64_t papers() const { return counts_[0]; }

 private:
  struct Lists {
    std::vector<int64_t> indptr;
    std::vector<uint32_t> indices;
  };
  std::vector<int64_t> counts_;
  std::vector<Lists> lists_;
  std::vector<std::pair<size_t, size_t>> ends_;
};

void SampleInto(const RandomGraph& graph, uint64_t seed, SampledSubgraph& out) {
  std::mt19937_64 random(seed);
  NeighborSampler sampler(graph.View(),
                          {{{4, 3, 2}, {2, -1, 0}, {3, 3, 3}}, random() % 2 == 0, seed});
  std::vector<int64_t> seeds;
  for (uint64_t i = random() % 20; i-- > 0;) {
    seeds.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(graph.papers())));
  }
  sampler.Sample(0, seeds, {0, seed}, out);
}

template <typename T>
std::vector<T> Copy(const Buffer<T>& buffer) {
  return {buffer.begin(), buffer.end()};
}

TEST(BatchStructure, EveryBatchComesBackWithoutLoss) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomGraph graph(seed);
    SampledSubgraph batch, back;
    SampleInto(graph, seed, batch);
    StructurePacker packer(graph.Shape());
    StructureUnpacker unpacker(graph.Shape());
    for (const bool with_edge_ids : {true, false}) {
      std::vector<std::byte> bytes;
      packer.Pack(batch, with_edge_ids, bytes);
      unpacker.Unpack(bytes, back);
      for (size_t t = 0; t < 2; ++t) {
        EXPECT_EQ(Copy(back.nodes[t].ids), Copy(batch.nodes[t].ids));
        EXPECT_EQ(back.nodes[t].hop_counts, batch.nodes[t].hop_counts);
      }
      for (size_t e = 0; e < 3; ++e) {
        EXPECT_EQ(Copy(back.edges[e].row), Copy(batch.edges[e].row));
        EXPECT_EQ(Copy(back.edges[e].col), Copy(batch.edges[e].col));
        EXPECT_EQ(back.edges[e].hop_counts, batch.edges[e].hop_counts);
        EXPECT_EQ(Copy(back.edges[e].edge_ids),
                  with_edge_ids ? Copy(batch.edges[e].edge_ids) : std::vector<int64_t>());
      }
    }
  }
}

TEST(BatchStructure, CutShortIsAlwaysAnError) {
  const RandomGraph graph(3);
  SampledSubgraph batch, back;
  SampleInto(graph, 3, batch);
  std::vector<std::byte> bytes;
  StructurePacker(graph.Shape()).Pack(batch, true, bytes);
  StructureUnpacker unpacker(graph.Shape());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(unpacker.Unpack(std::span(bytes).first(size), back), Error) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_ERROR(unpacker.Unpack(bytes, back), ErrorCode::kCorruptData, "unexpected bytes");
}

TEST(BatchStructure, FlippedBitsNeverGiveIndicesOutOfRange) {
  const RandomGraph graph(5);
  SampledSubgraph batch, back;
  SampleInto(graph, 5, batch);
  std::vector<std::byte> bytes;
  StructurePacker(graph.Shape()).Pack(batch, true, bytes);
  StructureUnpacker unpacker(graph.Shape());
  const StructureShape shape = graph.Shape();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    try {
      unpacker.Unpack(flipped, back);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << error.what();
      continue;
    }
    for (size_t e = 0; e < 3; ++e) {
      const auto [src, dst] = shape.edge_types[e];
      for (const int64_t row : back.edges[e].row) {
        ASSERT_LT(static_cast<size_t>(row), back.nodes[src].ids.size());
      }
      for (const int64_t col : back.edges[e].col) {
        ASSERT_LT(static_cast<size_t>(col), back.nodes[dst].ids.size());
      }
    }
    for (size_t t = 0; t < 2; ++t) {
      for (const int64_t id : back.nodes[t].ids) ASSERT_LT(id, shape.node_counts[t]);
    }
  }
}

}  // namespace
}  // namespace offpath::graph
