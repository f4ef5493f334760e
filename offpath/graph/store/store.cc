#include "offpath/graph/store/store.h"

#include <algorithm>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"
#include "offpath/graph/store/held_folder.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/stored_array.h"

namespace offpath::graph {
namespace {

struct Names {
  std::span<const int64_t> offsets;  // [count + 1], empty: the type has no names
  std::span<const std::byte> bytes;
  std::string file;  // for messages
};

[[noreturn]] void Fail(const std::string& path, std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, path + " " + std::string(problem));
}

}  // namespace

struct Store::State {
  std::string folder;
  std::string description;
  uint32_t fingerprint = 0;
  std::vector<NodeType> node_types;
  std::vector<EdgeType> edge_types;
  std::vector<Names> names;  // [node type]
  std::vector<MappedFile> files;

  std::span<const std::byte> Map(const ManifestFile& entry) {
    StoredArray array = MapStoredArray(folder, entry, AccessPattern::kRandom);
    files.push_back(std::move(array.file));
    return array.data;
  }

  template <typename T>
  std::span<const T> MapAs(const ManifestFile& entry) {
    const auto data = Map(entry);
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> MapAs(const std::optional<ManifestFile>& entry) {
    return entry ? MapAs<T>(*entry) : std::span<const T>();
  }

  IdArray MapIds(const ManifestFile& entry) {
    const auto data = Map(entry);
    return {data.data(), entry.shape[0], entry.type == NpyType::kU32};
  }

  FeatureView MapFeatures(const std::optional<ManifestFile>& entry) {
    if (!entry) return {};
    const auto data = MapAs<float>(*entry);
    return {data.data(), static_cast<int64_t>(entry->shape[0]),
            static_cast<int64_t>(entry->shape[1])};
  }

  void OpenNodeType(const ManifestNodeType& entry) {
    NodeType type;
    type.name = entry.name;
    type.count = entry.count;
    type.num_classes = entry.num_classes;
    type.features = MapFeatures(entry.features);
    type.labels = MapAs<int64_t>(entry.labels);
    type.original_ids = MapAs<int64_t>(entry.original_ids);
    for (const auto& [name, file] : entry.splits) type.splits[name] = MapAs<int64_t>(file);
    Names type_names;
    if (entry.name_offsets) {
      type_names.offsets = MapAs<int64_t>(*entry.name_offsets);
      type_names.bytes = Map(*entry.name_bytes);
      type_names.file = folder + "/" + entry.name_offsets->name;
    }
    node_types.push_back(std::move(type));
    names.push_back(std::move(type_names));
  }

  void OpenEdgeType(const ManifestEdgeType& entry) {
    EdgeType type;
    type.src = entry.src;
    type.relation = entry.relation;
    type.dst = entry.dst;
    type.src_type = entry.src_type;
    type.dst_type = entry.dst_type;
    CscView& csc = type.csc;
    csc.num_src = node_types[entry.src_type].count;
    csc.num_dst = node_types[entry.dst_type].count;
    csc.num_edges = entry.num_edges;
    csc.num_edge_ids = entry.num_edge_ids;
    const auto indptr = MapAs<int64_t>(entry.indptr);
    if (indptr.front() != 0 || indptr.back() != entry.num_edges) {
      Fail(folder + "/" + entry.indptr.name,
           "runs from " + std::to_string(indptr.front()) + " to " + std::to_string(indptr.back()) +
               " where the manifest says 0 to " + std::to_string(entry.num_edges));
    }
    csc.indptr = indptr.data();
    csc.indices = MapIds(entry.indices);
    if (entry.edge_ids) csc.edge_ids = MapIds(*entry.edge_ids);
    if (entry.weights) csc.weights = MapAs<float>(*entry.weights).data();
    if (entry.times) csc.times = MapAs<int64_t>(*entry.times).data();
    type.features = MapFeatures(entry.features);
    edge_types.push_back(std::move(type));
  }
};

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::~Store() = default;

std::shared_ptr<const Store> Store::Open(const std::string& folder) {
  return ReadOneFolder(folder, [&folder] { return OpenOnce(folder); });
}

std::shared_ptr<const Store> Store::OpenOnce(const std::string& folder) {
  const Manifest manifest = ReadManifest(folder);
  auto state = std::make_unique<State>();
  state->folder = folder;
  state->description = manifest.description;
  state->fingerprint = manifest.fingerprint;
  for (const auto& entry : manifest.node_types) state->OpenNodeType(entry);
  for (const auto& entry : manifest.edge_types) state->OpenEdgeType(entry);
  // The headers and ends that were read above may have been zeros of a file that was being cut.
  for (const MappedFile& file : state->files) file.CheckIntact();
  return std::shared_ptr<const Store>(new Store(std::move(state)));
}

const std::string& Store::folder() const noexcept { return state_->folder; }
const std::string& Store::description() const noexcept { return state_->description; }
uint32_t Store::fingerprint() const noexcept { return state_->fingerprint; }
const std::vector<NodeType>& Store::node_types() const noexcept { return state_->node_types; }
const std::vector<EdgeType>& Store::edge_types() const noexcept { return state_->edge_types; }

size_t Store::NodeTypeIndex(std::string_view name) const {
  const auto& types = state_->node_types;
  if (name.empty() && types.size() == 1) return 0;
  std::string known;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == name) return i;
    known += (i == 0 ? "" : ", ") + types[i].name;
  }
  throw Error(ErrorCode::kNotFound, state_->folder + " has no node type '" + std::string(name) +
                                        "'; it has: " + (known.empty() ? "none" : known));
}

size_t Store::EdgeTypeIndex(std::string_view src, std::string_view relation,
                            std::string_view dst) const {
  const auto& types = state_->edge_types;
  if (src.empty() && relation.empty() && dst.empty() && types.size() == 1) return 0;
  std::string known;
  for (size_t i = 0; i < types.size(); ++i) {
    const EdgeType& type = types[i];
    if (type.src == src && type.relation == relation && type.dst == dst) return i;
    known += (i == 0 ? "(" : ", (") + type.src + ", " + type.relation + ", " + type.dst + ")";
  }
  throw Error(ErrorCode::kNotFound, state_->folder + " has no edge type (" + std::string(src) +
                                        ", " + std::string(relation) + ", " + std::string(dst) +
                                        "); it has: " + (known.empty() ? "none" : known));
}

bool Store::homogeneous() const noexcept {
  return state_->node_types.size() == 1 && state_->edge_types.size() == 1;
}

std::string_view Store::NodeName(size_t node_type, int64_t node) const {
  if (node_type >= state_->node_types.size() || node < 0 ||
      node >= state_->node_types[node_type].count) {
    throw Error(ErrorCode::kInvalidArgument, "node " + std::to_string(node) + " of type number " +
                                                 std::to_string(node_type) + " is not in " +
                                                 state_->folder);
  }
  const Names& names = state_->names[node_type];
  if (names.offsets.empty()) return {};
  const auto row = static_cast<size_t>(node);
  const int64_t begin = names.offsets[row];
  const int64_t end = names.offsets[row + 1];
  if (begin < 0 || end < begin || end > static_cast<int64_t>(names.bytes.size())) {
    Fail(names.file, "has names out of order at row " + std::to_string(node));
  }
  return {reinterpret_cast<const char*>(names.bytes.data()) + begin,
          static_cast<size_t>(end - begin)};
}

void Store::CheckIntact() const {
  for (const MappedFile& file : state_->files) file.CheckIntact();
}

}  // namespace offpath::graph
