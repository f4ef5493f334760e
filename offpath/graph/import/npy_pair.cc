#include "offpath/graph/import/npy_pair.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {
namespace fs = std::filesystem;

constexpr uint64_t kPiece = uint64_t{1} << 18;  // edges

using Finder = std::function<std::optional<NamedArray>(std::string_view name)>;

std::optional<NamedArray> FirstOf(const Finder& find,
                                  std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (auto array = find(name)) return array;
  }
  return std::nullopt;
}

NpySource Find(const Finder& find, const std::string& path) {
  NpySource source;
  source.edge_index = find("edge_index");
  if (!source.edge_index) {
    source.src = find("src");
    source.dst = find("dst");
    if (!source.src || !source.dst) {
      throw Error(ErrorCode::kNotFound,
                  path + " holds no edges: neither edge_index.npy nor src.npy and dst.npy");
    }
  }
  source.weights = FirstOf(find, {"edge_weight", "weights", "weight"});
  source.times = FirstOf(find, {"edge_time", "times", "time"});
  source.edge_features = FirstOf(find, {"edge_attr", "edge_features"});
  source.nodes.features = FirstOf(find, {"x", "features", "feat", "node_feat"});
  source.nodes.labels = FirstOf(find, {"y", "labels", "label", "node_label"});
  const auto split = [&](const char* name, std::initializer_list<std::string_view> names) {
    if (auto array = FirstOf(find, names)) source.nodes.splits[name] = *array;
  };
  split("train", {"train", "train_idx", "train_mask"});
  split("val", {"val", "val_idx", "val_mask", "valid", "valid_idx", "valid_mask"});
  split("test", {"test", "test_idx", "test_mask"});
  if (const auto count = find("num_nodes")) {
    int64_t value = 0;
    CopyInts(*count, 0, std::span(&value, 1));
    source.num_nodes = value;
  }
  return source;
}

// Sources and destinations of any layout, by pieces.
class EdgeReader {
 public:
  explicit EdgeReader(const NpySource& source) {
    if (!source.edge_index) {
      src_ = &*source.src;
      dst_ = &*source.dst;
      edges_ = src_->size();
      if (dst_->size() != edges_) {
        throw Error(ErrorCode::kInvalidArgument, src_->name + " has " + std::to_string(edges_) +
                                                     " edges and " + dst_->name + " has " +
                                                     std::to_string(dst_->size()));
      }
      return;
    }
    src_ = dst_ = &*source.edge_index;
    const NpyHeader& header = src_->view.header;
    const bool by_rows = header.shape.size() == 2 && header.shape[0] == 2;
    const bool by_columns = header.shape.size() == 2 && header.shape[1] == 2 && !by_rows;
    if (!by_rows && !by_columns) {
      throw Error(ErrorCode::kInvalidArgument,
                  src_->name + " has a shape other than [2, edges] or [edges, 2]");
    }
    edges_ = header.shape[by_rows ? 1 : 0];
    interleaved_ = by_columns != header.fortran_order;
    dst_offset_ = edges_;
  }

  uint64_t edges() const noexcept { return edges_; }

  // Calls visit(first edge, src, dst) over all edges.
  template <typename Visit>
  void ForEachPiece(const Visit& visit) {
    std::vector<int64_t> src, dst, pairs;
    for (uint64_t first = 0; first < edges_; first += kPiece) {
      const auto count = static_cast<size_t>(std::min(kPiece, edges_ - first));
      src.resize(count);
      dst.resize(count);
      if (interleaved_) {
        pairs.resize(2 * count);
        CopyInts(*src_, 2 * first, pairs);
        for (size_t i = 0; i < count; ++i) {
          src[i] = pairs[2 * i];
          dst[i] = pairs[2 * i + 1];
        }
      } else {
        CopyInts(*src_, first, src);
        CopyInts(*dst_, dst_offset_ + first, dst);
      }
      visit(first, std::span<const int64_t>(src), std::span<const int64_t>(dst));
    }
    src_->CheckIntact();
    dst_->CheckIntact();
  }

 private:
  const NamedArray* src_ = nullptr;
  const NamedArray* dst_ = nullptr;
  uint64_t edges_ = 0;
  uint64_t dst_offset_ = 0;
  bool interleaved_ = false;
};

int64_t CountNodes(const NpySource& source, EdgeReader& reader) {
  if (source.num_nodes >= 0) return source.num_nodes;
  if (const int64_t count = source.nodes.count(); count >= 0) return count;
  int64_t largest = -1;
  reader.ForEachPiece([&](uint64_t, std::span<const int64_t> src, std::span<const int64_t> dst) {
    for (size_t i = 0; i < src.size(); ++i) largest = std::max({largest, src[i], dst[i]});
  });
  return largest + 1;
}

void CheckColumn(const std::optional<NamedArray>& array, uint64_t edges) {
  if (!array || array->size() == edges) return;
  throw Error(ErrorCode::kInvalidArgument, array->name + " has " + std::to_string(array->size()) +
                                               " entries for " + std::to_string(edges) + " edges");
}

void WriteEdgeFeatures(const NamedArray& array, uint64_t edges, StoreWriter& writer,
                       size_t edge_type) {
  const NpyHeader& header = array.view.header;
  if (header.shape.empty() || header.shape.size() > 2 || header.shape[0] != edges ||
      (header.fortran_order && header.shape.size() == 2 && header.shape[1] > 1)) {
    throw Error(ErrorCode::kInvalidArgument, array.name + " is not an array of " +
                                                 std::to_string(edges) +
                                                 " rows in C order, as features of the edges are");
  }
  const uint64_t dim = header.shape.size() == 2 ? header.shape[1] : 1;
  if (dim == 0) return;
  const uint64_t rows = std::max<uint64_t>(1, kPiece / dim);
  std::vector<float> values;
  for (uint64_t first = 0; first < edges; first += rows) {
    values.resize(static_cast<size_t>(std::min(rows, edges - first) * dim));
    CopyReals(array, first * dim, values);
    writer.AppendEdgeFeatures(edge_type, values, static_cast<int64_t>(dim));
  }
  array.CheckIntact();
}

// A zip by its first bytes, whatever it is called.
bool IsArchive(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

}  // namespace

NpySource OpenNpySource(const std::string& path, uint64_t max_archive_bytes) {
  if (fs::is_directory(path)) {
    const auto find = [&](std::string_view name) -> std::optional<NamedArray> {
      const fs::path file = fs::path(path) / (std::string(name) + ".npy");
      if (!fs::exists(file)) return std::nullopt;
      return OpenArray(file.string());
    };
    return Find(find, path);
  }
  if (IsArchive(path)) {
    const auto arrays = OpenArchive(path, max_archive_bytes);
    const auto find = [&](std::string_view name) -> std::optional<NamedArray> {
      const auto found = arrays.find(std::string(name));
      if (found == arrays.end()) return std::nullopt;
      return found->second;
    };
    return Find(find, path);
  }
  NpySource source;
  source.edge_index = OpenArray(path);
  return source;
}

void ImportNpy(const NpySource& source, const std::string& store,
               StoreWriter::Options writer_options, EdgeTypeOptions edge_options) {
  EdgeReader reader(source);
  CheckColumn(source.weights, reader.edges());
  CheckColumn(source.times, reader.edges());
  if (source.both_ways && source.edge_features) {
    throw Error(ErrorCode::kUnsupported,
                source.edge_features->name +
                    " belongs to edges of one way; leave it out or import one way only");
  }
  const Progress progress = writer_options.progress;
  const int64_t count = CountNodes(source, reader);
  StoreWriter writer(store, std::move(writer_options));
  const size_t node = writer.AddNodeType("node", count);
  edge_options.has_weights = source.weights.has_value();
  edge_options.has_times = source.times.has_value();
  const size_t edge = writer.AddEdgeType(node, "to", node, edge_options);
  std::vector<float> weights;
  std::vector<int64_t> times;
  reader.ForEachPiece(
      [&](uint64_t first, std::span<const int64_t> src, std::span<const int64_t> dst) {
        if (source.weights) {
          weights.resize(src.size());
          CopyReals(*source.weights, first, weights);
        }
        if (source.times) {
          times.resize(src.size());
          CopyInts(*source.times, first, times);
        }
        AppendEdgesEitherWay(writer, edge, source.both_ways, src, dst, weights, times);
        if (progress) progress("reading edges", first + src.size(), reader.edges());
      });
  if (source.weights) source.weights->CheckIntact();
  if (source.times) source.times->CheckIntact();
  if (source.edge_features) {
    WriteEdgeFeatures(*source.edge_features, reader.edges(), writer, edge);
  }
  WriteNodeArrays(source.nodes, count, writer, node, progress);
  writer.Commit();
}

}  // namespace offpath::graph
