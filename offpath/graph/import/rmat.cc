#include "offpath/graph/import/rmat.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "offpath/base/thread_pool.h"

namespace offpath::graph {
namespace {

std::string Describe(const RmatOptions& o) {
  return "rmat: " + std::to_string(o.nodes) + " nodes, " + std::to_string(o.edges) + " edges, " +
         std::to_string(o.features) + " features, " + std::to_string(o.classes) +
         " classes, seed " + std::to_string(o.seed);
}

void WriteEdges(const RmatGenerator& generator, StoreWriter& writer, size_t edge_type,
                ThreadPool& pool, const Progress& progress) {
  constexpr size_t kChunk = size_t{1} << 20;
  const auto total = static_cast<uint64_t>(generator.options().edges);
  const auto largest = static_cast<size_t>(std::min<uint64_t>(total, kChunk));
  std::vector<int64_t> src(largest);
  std::vector<int64_t> dst(largest);
  for (uint64_t done = 0; done < total;) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(total - done, kChunk));
    pool.ParallelFor(count, 4096, [&](size_t begin, size_t end) {
      generator.Edges(done + begin, std::span(src).subspan(begin, end - begin),
                      std::span(dst).subspan(begin, end - begin));
    });
    writer.AppendEdges(edge_type, std::span(src).first(count), std::span(dst).first(count));
    done += count;
    if (progress) progress("generating edges", done, total);
  }
}

void WriteFeatures(const RmatGenerator& generator, StoreWriter& writer, size_t node_type,
                   ThreadPool& pool, const Progress& progress) {
  const int64_t dim = generator.options().features;
  const int64_t total = generator.options().nodes;
  const int64_t chunk = std::clamp<int64_t>((int64_t{4} << 20) / dim, 1, total);
  const auto width = static_cast<size_t>(dim);
  std::vector<float> rows(static_cast<size_t>(chunk) * width);
  for (int64_t done = 0; done < total;) {
    const int64_t count = std::min(total - done, chunk);
    pool.ParallelFor(static_cast<size_t>(count), 64, [&](size_t begin, size_t end) {
      generator.Features(done + static_cast<int64_t>(begin),
                         std::span(rows).subspan(begin * width, (end - begin) * width));
    });
    writer.AppendFeatures(node_type, std::span(rows).first(static_cast<size_t>(count) * width),
                          dim);
    done += count;
    if (progress) {
      progress("generating features", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
    }
  }
}

void WriteLabels(const RmatGenerator& generator, StoreWriter& writer, size_t node_type,
                 ThreadPool& pool) {
  const int64_t nodes = generator.options().nodes;
  std::vector<int64_t> values(static_cast<size_t>(nodes));
  pool.ParallelFor(values.size(), 4096, [&](size_t begin, size_t end) {
    generator.Labels(static_cast<int64_t>(begin), std::span(values).subspan(begin, end - begin));
  });
  writer.SetLabels(node_type, values, generator.options().classes);

  // One after the other in the labels' memory: all of them at once would take as much again.
  constexpr const char* kSplits[3] = {"train", "val", "test"};
  for (int split = 0; split < 3; ++split) {
    size_t size = 0;
    for (int64_t node = 0; node < nodes; ++node) {
      if (generator.Split(node) == split) values[size++] = node;
    }
    writer.SetSplit(node_type, kSplits[split], std::span(values).first(size));
  }
}

}  // namespace

void ImportRmat(const RmatOptions& options, const std::string& store,
                StoreWriter::Options writer_options, EdgeTypeOptions edge_options, size_t threads) {
  const RmatGenerator generator(options);
  ThreadPool pool(threads);
  const Progress progress = writer_options.progress;
  writer_options.description = Describe(options);
  edge_options.order = EdgeOrder::kRenumber;
  StoreWriter writer(store, std::move(writer_options));
  const size_t node_type = writer.AddNodeType("node", options.nodes);
  const size_t edge_type = writer.AddEdgeType(node_type, "to", node_type, edge_options);
  WriteEdges(generator, writer, edge_type, pool, progress);
  if (options.features > 0) WriteFeatures(generator, writer, node_type, pool, progress);
  if (options.classes > 0) WriteLabels(generator, writer, node_type, pool);
  writer.Commit();
}

}  // namespace offpath::graph
