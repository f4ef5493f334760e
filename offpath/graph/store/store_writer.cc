#include "offpath/graph/store/store_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/staged_folder.h"
#include "offpath/base/thread_pool.h"
#include "offpath/graph/store/edge_type_writer.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/node_type_writer.h"
#include "offpath/graph/store/replaceable.h"

namespace offpath::graph {
namespace {

constexpr size_t kMostSortThreads = 16;

[[noreturn]] void Invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

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
  std::vector<NodeTypeWriter> nodes;
  std::vector<EdgeTypeWriter> edges;
  bool committed = false;

  State(const std::string& target, Options given)
      : options(Checked(target, std::move(given))),
        folder(target, options.replace),
        pool(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostSortThreads)) {}

  static Options Checked(const std::string& target, Options options) {
    if (options.replace) CheckReplaceable(target);
    return options;
  }

  NodeTypeWriter& Node(size_t type) {
    CheckOpen();
    if (type >= nodes.size()) Invalid("there is no node type number " + std::to_string(type));
    return nodes[type];
  }
  EdgeTypeWriter& Edge(size_t type) {
    CheckOpen();
    if (type >= edges.size()) Invalid("there is no edge type number " + std::to_string(type));
    return edges[type];
  }
  void CheckOpen() const {
    if (committed) Invalid("this store is committed; make a new writer to change it");
  }

  // Half of the memory holds edges, the other half is what sorting them takes.
  void SpillWhereNeeded() {
    uint64_t buffered = 0;
    EdgeTypeWriter* largest = nullptr;
    for (EdgeTypeWriter& edge : edges) {
      buffered += edge.buffered_bytes();
      if (largest == nullptr || edge.buffered_bytes() > largest->buffered_bytes()) largest = &edge;
    }
    if (largest != nullptr && buffered > options.memory_bytes / 2) largest->Spill();
  }

  Manifest Finish() {
    Manifest manifest;
    manifest.description = options.description;
    for (NodeTypeWriter& node : nodes) manifest.node_types.push_back(node.Finish());
    uint64_t total = 0;
    uint64_t done = 0;
    for (const EdgeTypeWriter& edge : edges) total += static_cast<uint64_t>(edge.input_edges());
    for (EdgeTypeWriter& edge : edges) {
      const uint64_t after = done + static_cast<uint64_t>(edge.input_edges());
      manifest.edge_types.push_back(edge.Finish([&](uint64_t passed) {
        done += passed;
        if (options.progress) options.progress("sorting edges", done, total);
      }));
      done = after;  // dropped ones too
    }
    return manifest;
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
  for (const NodeTypeWriter& other : state_->nodes) {
    if (other.name() == name) Invalid("node type '" + name + "' is added twice");
  }
  if (state_->nodes.size() == kMaxTypes) Invalid("a store has at most 4096 node types");
  state_->nodes.emplace_back(state_->folder.path(), state_->nodes.size(), name, count);
  return state_->nodes.size() - 1;
}

void StoreWriter::AppendFeatures(size_t node_type, std::span<const float> rows, int64_t dim) {
  state_->Node(node_type).AppendFeatures(rows, dim);
}

void StoreWriter::SetLabels(size_t node_type, std::span<const int64_t> labels,
                            int64_t num_classes) {
  state_->Node(node_type).SetLabels(labels, num_classes);
}

void StoreWriter::SetSplit(size_t node_type, const std::string& split,
                           std::span<const int64_t> nodes) {
  state_->Node(node_type).SetSplit(split, nodes);
}

void StoreWriter::SetOriginalIds(size_t node_type, std::span<const int64_t> ids) {
  state_->Node(node_type).SetOriginalIds(ids);
}

void StoreWriter::SetNames(size_t node_type, const std::vector<std::string>& names) {
  state_->Node(node_type).SetNames(names);
}

size_t StoreWriter::AddEdgeType(size_t src_type, const std::string& relation, size_t dst_type,
                                EdgeTypeOptions options) {
  const NodeTypeWriter& src = state_->Node(src_type);
  const NodeTypeWriter& dst = state_->Node(dst_type);
  if (!IsTypeName(relation)) {
    Invalid("'" + relation + "' cannot name a relation: letters, digits, '_', '-' and '.' can, " +
            "1 to 100 of them and no '.' first");
  }
  if (state_->edges.size() == kMaxTypes) Invalid("a store has at most 4096 edge types");
  const size_t index = state_->edges.size();
  EdgeTypeWriter edge({.folder = state_->folder.path(),
                       .index = index,
                       .merge_memory_bytes = state_->options.memory_bytes / 2},
                      src, relation, dst, options, state_->pool);
  for (const EdgeTypeWriter& other : state_->edges) {
    if (other.name() == edge.name()) Invalid("edge type " + edge.name() + " is added twice");
  }
  state_->edges.push_back(std::move(edge));
  return index;
}

void StoreWriter::AppendEdges(size_t edge_type, std::span<const int64_t> src,
                              std::span<const int64_t> dst, std::span<const float> weights,
                              std::span<const int64_t> times) {
  state_->Edge(edge_type).Append(src, dst, weights, times, [&] { state_->SpillWhereNeeded(); });
}

void StoreWriter::AppendEdgeFeatures(size_t edge_type, std::span<const float> rows, int64_t dim) {
  state_->Edge(edge_type).AppendFeatures(rows, dim);
}

void StoreWriter::Commit() {
  State& state = *state_;
  state.CheckOpen();
  state.committed = true;  // also where it fails: half of the files are closed then
  const std::string text = FormatManifest(state.Finish());
  if (text.size() > kMaxManifestBytes) {
    Invalid("the store has so many types that its manifest is " + std::to_string(text.size()) +
            " bytes");
  }
  WriteText(state.folder.path() + "/" + std::string(kManifestName), text);
  state.folder.Commit();
}

}  // namespace offpath::graph
