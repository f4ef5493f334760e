#include "offpath/graph/store/store_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/npy.h"
#include "offpath/base/staged_folder.h"
#include "offpath/base/thread_pool.h"
#include "offpath/graph/store/edge_sorter.h"
#include "offpath/graph/store/feature_column.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/utf8.h"

namespace offpath::graph {
namespace {

constexpr size_t kMostSortThreads = 16;
constexpr size_t kAppendPiece = size_t{1} << 18;

[[noreturn]] void Invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void CheckCount(const std::string& what, size_t given, int64_t count) {
  if (static_cast<uint64_t>(count) != given) {
    Invalid(what + " has " + std::to_string(given) + " entries where the type has " +
            std::to_string(count) + " nodes");
  }
}

// A folder is replaced whole, so nothing may lie in it but a store: a slip of the hand, such as `.`
// or a folder of data, must not cost what is there.
void CheckReplaceable(const std::string& target) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::directory_iterator entries(target, error);
  if (error) return;  // nothing there, or no folder: writing aside says which
  std::string other;
  bool store = false;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    const bool column =
        entry.is_regular_file(error) && name.ends_with(".npy") &&
        (!other.empty() || name.starts_with("nodes-") || name.starts_with("edges-"));
    if (name == kManifestName) {
      store = true;
    } else if (!column) {
      other = name;
    }
  }
  if (other.empty() && (store || fs::is_empty(target, error))) return;
  Invalid(target + " would be replaced, but it " +
          (store ? "holds '" + other + "', which is no part of a store: move that away first"
                 : "is not a store: name another folder, or remove it yourself"));
}

struct NodeState {
  ManifestNodeType entry;
  FeatureColumn features;
};

struct EdgeState {
  ManifestEdgeType entry;
  EdgeTypeOptions options;
  EdgeShape shape;
  std::unique_ptr<EdgeSorter> sorter;
  FeatureColumn features;
  std::string name;  // "(src, relation, dst)"
};

void WriteText(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) ThrowErrno(errno, "creating " + path);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      close(fd);
      ThrowErrno(reason, "writing " + path);
    }
    done += static_cast<size_t>(written);
  }
  if (close(fd) != 0) ThrowErrno(errno, "closing " + path);
}

}  // namespace

struct StoreWriter::State {
  Options options;
  StagedFolder folder;
  ThreadPool pool;
  std::vector<NodeState> nodes;
  std::vector<EdgeState> edges;
  bool committed = false;

  State(const std::string& target, Options given)
      : options(Checked(target, std::move(given))),
        folder(target, options.replace),
        pool(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostSortThreads)) {}

  static Options Checked(const std::string& target, Options options) {
    if (options.replace) CheckReplaceable(target);
    return options;
  }

  NodeState& Node(size_t type) {
    CheckOpen();
    if (type >= nodes.size()) Invalid("there is no node type number " + std::to_string(type));
    return nodes[type];
  }
  EdgeState& Edge(size_t type) {
    CheckOpen();
    if (type >= edges.size()) Invalid("there is no edge type number " + std::to_string(type));
    return edges[type];
  }
  void CheckOpen() const {
    if (committed) Invalid("this store is committed; make a new writer to change it");
  }

  std::string Path(const std::string& file) const { return folder.path() + "/" + file; }
  std::string NodeFile(size_t type, const std::string& role) const {
    return "nodes-" + std::to_string(type) + "-" + role + ".npy";
  }
  std::string EdgeFile(size_t type, const std::string& role) const {
    return "edges-" + std::to_string(type) + "-" + role + ".npy";
  }

  static ManifestFile Close(NpyWriter& writer, const std::string& file, NpyType type) {
    const auto result = writer.Finish();
    return {file, type, result.shape, result.bytes, result.crc32c};
  }

  template <typename T>
  ManifestFile WriteArray(const std::string& file, std::span<const T> values) const {
    NpyWriter writer(Path(file), kNpyTypeOf<T>, {values.size()});
    writer.WriteValues(values);
    return Close(writer, file, kNpyTypeOf<T>);
  }

  // Half of the memory holds edges, the other half is what sorting them takes.
  void SpillWhereNeeded() {
    uint64_t buffered = 0;
    EdgeState* largest = nullptr;
    for (EdgeState& edge : edges) {
      buffered += edge.sorter->buffered_bytes();
      if (largest == nullptr || edge.sorter->buffered_bytes() > largest->sorter->buffered_bytes()) {
        largest = &edge;
      }
    }
    if (largest != nullptr && buffered > options.memory_bytes / 2) largest->sorter->Spill();
  }

  void FinishNodeType(size_t type) {
    NodeState& node = nodes[type];
    if (node.features.empty()) return;
    if (node.features.rows() != node.entry.count) {
      Invalid("features of '" + node.entry.name + "' have " + std::to_string(node.features.rows()) +
              " rows where the type has " + std::to_string(node.entry.count) + " nodes");
    }
    node.entry.features = node.features.Finish(NodeFile(type, "features"));
  }

  void FinishEdgeType(size_t type, uint64_t before, uint64_t total) {
    EdgeState& edge = edges[type];
    const bool keep_ids = edge.options.order == EdgeOrder::kKeepIds;
    const int64_t input_edges = edge.sorter->input_edges();
    if (!edge.features.empty() && edge.features.rows() != input_edges) {
      Invalid("features of " + edge.name + " have " + std::to_string(edge.features.rows()) +
              " rows where " + std::to_string(input_edges) + " edges came in");
    }
    EdgeOutput output({.folder = folder.path(),
                       .prefix = "edges-" + std::to_string(type) + "-",
                       .shape = edge.shape,
                       .columns = {edge.options.has_weights, edge.options.has_times},
                       .input_edges = input_edges,
                       .keep_ids = keep_ids,
                       .drop_duplicates = edge.options.drop_duplicates});
    edge.sorter->Drain(output, [&](uint64_t passed) {
      before += passed;
      if (options.progress) options.progress("sorting edges", before, total);
    });
    edge.sorter.reset();
    output.Finish(edge.entry);
    if (!edge.features.empty()) {
      edge.entry.features = edge.features.Finish(EdgeFile(type, "features"));
    }
  }
};

StoreWriter::StoreWriter(const std::string& folder, Options options)
    : state_(std::make_unique<State>(folder, std::move(options))) {}
StoreWriter::~StoreWriter() = default;

size_t StoreWriter::AddNodeType(const std::string& name, int64_t count) {
  state_->CheckOpen();
  if (!IsTypeName(name)) {
    Invalid("'" + name + "' cannot name a node type: letters, digits, '_', '-' and '.' can, 1 to " +
            "100 of them and no '.' first");
  }
  if (count < 0 || count > kMaxCount) {
    Invalid("node type '" + name + "': a count of " + std::to_string(count) + " is not possible");
  }
  for (const NodeState& other : state_->nodes) {
    if (other.entry.name == name) Invalid("node type '" + name + "' is added twice");
  }
  if (state_->nodes.size() == kMaxTypes) Invalid("a store has at most 4096 node types");
  NodeState node;
  node.entry.name = name;
  node.entry.count = count;
  state_->nodes.push_back(std::move(node));
  return state_->nodes.size() - 1;
}

void StoreWriter::AppendFeatures(size_t node_type, std::span<const float> rows, int64_t dim) {
  NodeState& node = state_->Node(node_type);
  node.features.Append(state_->Path(state_->NodeFile(node_type, "features")),
                       "'" + node.entry.name + "'", rows, dim);
}

void StoreWriter::SetLabels(size_t node_type, std::span<const int64_t> labels,
                            int64_t num_classes) {
  NodeState& node = state_->Node(node_type);
  const std::string what = "labels of '" + node.entry.name + "'";
  CheckCount(what, labels.size(), node.entry.count);
  if (num_classes < 0 || num_classes > kMaxCount) {
    Invalid(what + ": " + std::to_string(num_classes) + " classes are not possible");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= -1 && labels[i] < num_classes) continue;
    Invalid(what + ": node " + std::to_string(i) + " has label " + std::to_string(labels[i]) +
            "; classes are 0 to " + std::to_string(num_classes - 1) + ", and -1 is unlabelled");
  }
  node.entry.labels = state_->WriteArray(state_->NodeFile(node_type, "labels"), labels);
  node.entry.num_classes = num_classes;
}

void StoreWriter::SetSplit(size_t node_type, const std::string& split,
                           std::span<const int64_t> nodes) {
  NodeState& node = state_->Node(node_type);
  const std::string what = "split '" + split + "' of '" + node.entry.name + "'";
  if (!IsTypeName(split)) Invalid(what + " is not named with letters, digits, '_', '-' and '.'");
  if (node.entry.splits.size() == kMaxSplits && node.entry.splits.count(split) == 0) {
    Invalid(what + ": a node type has at most 64 splits");
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] >= 0 && nodes[i] < node.entry.count) continue;
    Invalid(what + ": entry " + std::to_string(i) + " is node " + std::to_string(nodes[i]) +
            ", out of range for " + std::to_string(node.entry.count) + " nodes");
  }
  node.entry.splits[split] =
      state_->WriteArray(state_->NodeFile(node_type, "split-" + split), nodes);
}

void StoreWriter::SetOriginalIds(size_t node_type, std::span<const int64_t> ids) {
  NodeState& node = state_->Node(node_type);
  CheckCount("original ids of '" + node.entry.name + "'", ids.size(), node.entry.count);
  node.entry.original_ids = state_->WriteArray(state_->NodeFile(node_type, "original_ids"), ids);
}

void StoreWriter::SetNames(size_t node_type, const std::vector<std::string>& names) {
  NodeState& node = state_->Node(node_type);
  CheckCount("names of '" + node.entry.name + "'", names.size(), node.entry.count);
  const std::string offsets_file = state_->NodeFile(node_type, "name_offsets");
  const std::string bytes_file = state_->NodeFile(node_type, "name_bytes");
  NpyWriter offsets(state_->Path(offsets_file), NpyType::kI64, {0});
  NpyWriter bytes(state_->Path(bytes_file), NpyType::kU8, {0});
  int64_t position = 0;
  offsets.WriteValues(std::span<const int64_t>(&position, 1));
  for (size_t i = 0; i < names.size(); ++i) {
    if (!IsUtf8(names[i])) {
      Invalid("names of '" + node.entry.name + "': row " + std::to_string(i) + " is not UTF-8");
    }
    bytes.Write(std::as_bytes(std::span(names[i])));
    position += static_cast<int64_t>(names[i].size());
    offsets.WriteValues(std::span<const int64_t>(&position, 1));
  }
  node.entry.name_offsets = State::Close(offsets, offsets_file, NpyType::kI64);
  node.entry.name_bytes = State::Close(bytes, bytes_file, NpyType::kU8);
}

size_t StoreWriter::AddEdgeType(size_t src_type, const std::string& relation, size_t dst_type,
                                EdgeTypeOptions options) {
  EdgeState edge;
  edge.entry.src = state_->Node(src_type).entry.name;
  edge.entry.relation = relation;
  edge.entry.dst = state_->Node(dst_type).entry.name;
  edge.name = "(" + edge.entry.src + ", " + relation + ", " + edge.entry.dst + ")";
  edge.options = options;
  edge.shape =
      MakeEdgeShape(state_->nodes[src_type].entry.count, state_->nodes[dst_type].entry.count);
  if (!IsTypeName(relation)) {
    Invalid("'" + relation + "' cannot name a relation: letters, digits, '_', '-' and '.' can, " +
            "1 to 100 of them and no '.' first");
  }
  for (const EdgeState& other : state_->edges) {
    if (other.name == edge.name) Invalid("edge type " + edge.name + " is added twice");
  }
  if (state_->edges.size() == kMaxTypes) Invalid("a store has at most 4096 edge types");
  const size_t index = state_->edges.size();
  edge.sorter =
      EdgeSorter::Create({.shape = edge.shape,
                          .columns = {options.has_weights, options.has_times},
                          .keep_ids = options.order == EdgeOrder::kKeepIds,
                          .drop_self_loops = options.drop_self_loops && src_type == dst_type,
                          .drop_duplicates = options.drop_duplicates,
                          .spool_path = state_->Path("spool-" + std::to_string(index)),
                          .merge_memory_bytes = state_->options.memory_bytes / 2},
                         state_->pool);
  state_->edges.push_back(std::move(edge));
  return index;
}

void StoreWriter::AppendEdges(size_t edge_type, std::span<const int64_t> src,
                              std::span<const int64_t> dst, std::span<const float> weights,
                              std::span<const int64_t> times) {
  EdgeState& edge = state_->Edge(edge_type);
  const auto check_size = [&](const char* what, size_t size, bool wanted) {
    if (size == (wanted ? src.size() : 0)) return;
    Invalid(edge.name + ": " + std::to_string(size) + " " + what + " came with " +
            std::to_string(src.size()) + " edges" +
            (wanted ? "" : ", of a type that was added without them"));
  };
  check_size("destinations", dst.size(), true);
  check_size("weights", weights.size(), edge.options.has_weights);
  check_size("times", times.size(), edge.options.has_times);
  const int64_t first = edge.sorter->input_edges();
  const auto num_src = static_cast<uint64_t>(edge.shape.num_src);
  const auto num_dst = static_cast<uint64_t>(edge.shape.num_dst);
  bool bad = false;
  for (size_t i = 0; i < src.size(); ++i) {
    bad |= static_cast<uint64_t>(src[i]) >= num_src || static_cast<uint64_t>(dst[i]) >= num_dst;
  }
  for (size_t i = 0; bad && i < src.size(); ++i) {
    const bool bad_src = static_cast<uint64_t>(src[i]) >= num_src;
    if (!bad_src && static_cast<uint64_t>(dst[i]) < num_dst) continue;
    Invalid(edge.name + ": edge " + std::to_string(first + static_cast<int64_t>(i)) + " (" +
            std::to_string(src[i]) + " -> " + std::to_string(dst[i]) + ") has a " +
            (bad_src ? "source" : "destination") + " out of range: the type has " +
            std::to_string(bad_src ? num_src : num_dst) + " nodes");
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] >= 0) continue;
    Invalid(edge.name + ": edge " + std::to_string(first + static_cast<int64_t>(i)) +
            " has weight " + std::to_string(weights[i]) + "; weights are finite and not negative");
  }
  for (size_t begin = 0; begin < src.size(); begin += kAppendPiece) {
    const size_t count = std::min(kAppendPiece, src.size() - begin);
    edge.sorter->Append(src.subspan(begin, count), dst.subspan(begin, count),
                        weights.empty() ? weights : weights.subspan(begin, count),
                        times.empty() ? times : times.subspan(begin, count));
    state_->SpillWhereNeeded();
  }
}

void StoreWriter::AppendEdgeFeatures(size_t edge_type, std::span<const float> rows, int64_t dim) {
  EdgeState& edge = state_->Edge(edge_type);
  if (edge.options.order != EdgeOrder::kKeepIds) {
    Invalid(edge.name +
            ": features are rows by the edge's place in the input, so its ids must be " +
            "kept (EdgeOrder::kKeepIds)");
  }
  edge.features.Append(state_->Path(state_->EdgeFile(edge_type, "features")), edge.name, rows, dim);
}

void StoreWriter::Commit() {
  State& state = *state_;
  state.CheckOpen();
  state.committed = true;  // also where it fails: half of the files are closed then
  Manifest manifest;
  manifest.description = state.options.description;
  for (size_t type = 0; type < state.nodes.size(); ++type) {
    state.FinishNodeType(type);
    manifest.node_types.push_back(state.nodes[type].entry);
  }
  uint64_t total = 0;
  uint64_t before = 0;
  for (const EdgeState& edge : state.edges) {
    total += static_cast<uint64_t>(edge.sorter->input_edges());
  }
  for (size_t type = 0; type < state.edges.size(); ++type) {
    const auto edges = static_cast<uint64_t>(state.edges[type].sorter->input_edges());
    state.FinishEdgeType(type, before, total);
    before += edges;
    manifest.edge_types.push_back(state.edges[type].entry);
  }
  const std::string text = FormatManifest(manifest);
  if (text.size() > kMaxManifestBytes)
    Invalid("the store has so many types that its manifest is " + std::to_string(text.size()) +
            " bytes");
  WriteText(state.Path(std::string(kManifestName)), text);
  state.folder.Commit();
}

}  // namespace offpath::graph
