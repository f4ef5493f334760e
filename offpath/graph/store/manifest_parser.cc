#include "offpath/graph/store/manifest_parser.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/store/manifest_checksum.h"
#include "offpath/graph/store/manifest_fields.h"

namespace offpath::graph {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileName = 200;

class Parser {
 public:
  explicit Parser(std::string_view context) : context_(context) {}

  Manifest Parse(const json& root) {
    ManifestFields fields(root, context_ + ": the manifest");
    if (fields.String("format") != kManifestFormat)
      FailJson(fields.Path("format"), "is not offpath-store");
    const int64_t version = fields.Count("version");
    if (version != static_cast<int64_t>(kManifestVersion)) {
      throw Error(ErrorCode::kUnsupported, fields.Path("version") + " is " +
                                               std::to_string(version) + "; this build reads " +
                                               std::to_string(kManifestVersion) +
                                               ": import the graph again");
    }
    Manifest manifest;
    manifest.description = fields.String("description");
    if (manifest.description.size() > kMaxDescription) {
      FailJson(fields.Path("description"), "is longer than 65536 bytes");
    }
    const json& node_types = fields.List("node_types", kMaxTypes);
    for (size_t i = 0; i < node_types.size(); ++i) {
      ParseNodeType(node_types[i], Item("node_types", i), manifest);
    }
    const json& edge_types = fields.List("edge_types", kMaxTypes);
    for (size_t i = 0; i < edge_types.size(); ++i) {
      ParseEdgeType(edge_types[i], Item("edge_types", i), manifest);
    }
    fields.Find("crc32c");
    fields.Finish();
    return manifest;
  }

 private:
  // A file's array as its role needs it; kAny leaves a dimension open, up to `most`.
  struct Need {
    std::initializer_list<NpyType> types;
    std::vector<uint64_t> shape;
    uint64_t most = 0;
  };
  static constexpr uint64_t kAny = ~uint64_t{0};

  std::string Item(std::string_view list, size_t i) const {
    return context_ + ": " + std::string(list) + "[" + std::to_string(i) + "]";
  }

  void ParseNodeType(const json& value, const std::string& where, Manifest& manifest) {
    ManifestFields fields(value, where);
    ManifestNodeType type;
    type.name = fields.TypeName("name");
    for (const ManifestNodeType& other : manifest.node_types) {
      if (other.name == type.name) FailJson(fields.Path("name"), "is '" + type.name + "' twice");
    }
    type.count = fields.Count("count");
    type.num_classes = fields.Count("num_classes");
    const auto count = static_cast<uint64_t>(type.count);
    type.features = Optional(fields, "features",
                             {{NpyType::kF32}, {count, kAny}, static_cast<uint64_t>(kMaxDim)});
    type.labels = Optional(fields, "labels", {{NpyType::kI64}, {count}});
    type.original_ids = Optional(fields, "original_ids", {{NpyType::kI64}, {count}});
    type.name_offsets = Optional(fields, "name_offsets", {{NpyType::kI64}, {count + 1}});
    type.name_bytes = Optional(fields, "name_bytes", {{NpyType::kU8}, {kAny}, kMaxCount});
    if (type.name_offsets.has_value() != type.name_bytes.has_value()) {
      FailJson(where, "has one of name_offsets and name_bytes without the other");
    }
    if (const json* splits = fields.Find("splits")) {
      if (!splits->is_object()) FailJson(fields.Path("splits"), "is not an object");
      if (splits->size() > kMaxSplits) FailJson(fields.Path("splits"), "has more than 64 splits");
      for (const auto& [name, file] : splits->items()) {
        const std::string split_where = fields.Path("splits." + name);
        if (!IsTypeName(name)) FailJson(split_where, "is not named with letters and digits");
        type.splits[name] = File(file, split_where, {{NpyType::kI64}, {kAny}, kMaxCount});
      }
    }
    fields.Finish();
    manifest.node_types.push_back(std::move(type));
  }

  static size_t NodeTypeNamed(const Manifest& manifest, const std::string& name,
                              const std::string& where) {
    for (size_t i = 0; i < manifest.node_types.size(); ++i) {
      if (manifest.node_types[i].name == name) return i;
    }
    FailJson(where, "is '" + name + "', which is no node type of this store");
  }

  void ParseEdgeType(const json& value, const std::string& where, Manifest& manifest) {
    ManifestFields fields(value, where);
    ManifestEdgeType type;
    type.src = fields.TypeName("src");
    type.relation = fields.TypeName("relation");
    type.dst = fields.TypeName("dst");
    type.src_type = NodeTypeNamed(manifest, type.src, fields.Path("src"));
    type.dst_type = NodeTypeNamed(manifest, type.dst, fields.Path("dst"));
    for (const ManifestEdgeType& other : manifest.edge_types) {
      if (other.src == type.src && other.relation == type.relation && other.dst == type.dst) {
        FailJson(where, "is (" + type.src + ", " + type.relation + ", " + type.dst + ") twice");
      }
    }
    type.num_edges = fields.Count("num_edges");
    type.num_edge_ids = fields.Count("num_edge_ids");
    if (type.num_edge_ids < type.num_edges) {
      FailJson(fields.Path("num_edge_ids"), "is below num_edges");
    }
    const auto edges = static_cast<uint64_t>(type.num_edges);
    const auto rows = static_cast<uint64_t>(manifest.node_types[type.dst_type].count) + 1;
    type.indptr = Required(fields, "indptr", {{NpyType::kI64}, {rows}});
    type.indices = Required(fields, "indices", {{NpyType::kU32, NpyType::kI64}, {edges}});
    type.edge_ids = Optional(fields, "edge_ids", {{NpyType::kU32, NpyType::kI64}, {edges}});
    if (!type.edge_ids && type.num_edge_ids != type.num_edges) {
      FailJson(fields.Path("num_edge_ids"), "differs from num_edges though no edge_ids are stored");
    }
    type.weights = Optional(fields, "weights", {{NpyType::kF32}, {edges}});
    type.times = Optional(fields, "times", {{NpyType::kI64}, {edges}});
    type.features = Optional(fields, "features",
                             {{NpyType::kF32},
                              {static_cast<uint64_t>(type.num_edge_ids), kAny},
                              static_cast<uint64_t>(kMaxDim)});
    fields.Finish();
    manifest.edge_types.push_back(std::move(type));
  }

  std::optional<ManifestFile> Optional(ManifestFields& fields, std::string_view field,
                                       const Need& need) {
    const json* value = fields.Find(field);
    if (value == nullptr) return std::nullopt;
    return File(*value, fields.Path(field), need);
  }
  ManifestFile Required(ManifestFields& fields, std::string_view field, const Need& need) {
    return File(fields.Get(field), fields.Path(field), need);
  }

  ManifestFile File(const json& value, const std::string& where, const Need& need) {
    ManifestFields fields(value, where);
    ManifestFile file;
    file.name = fields.String("file");
    if (!IsManifestName(file.name, kMaxFileName) || !file.name.ends_with(".npy")) {
      FailJson(fields.Path("file"), "is not the name of a .npy file in the store's folder");
    }
    if (!files_.insert(file.name).second) {
      FailJson(fields.Path("file"), "is '" + file.name + "', which another array has already");
    }
    const std::string& dtype = fields.String("dtype");
    const auto* type = std::find_if(need.types.begin(), need.types.end(),
                                    [&](NpyType t) { return NpyTypeName(t) == dtype; });
    if (type == need.types.end()) {
      FailJson(fields.Path("dtype"), "is '" + dtype.substr(0, 32) + "' where " +
                                         std::string(NpyTypeName(*need.types.begin())) +
                                         " is needed");
    }
    file.type = *type;
    file.shape = Shape(fields.List("shape", 2), fields.Path("shape"), need);
    file.bytes = static_cast<uint64_t>(fields.Count("bytes", int64_t{1} << 62));
    uint64_t data = NpyTypeSize(file.type);  // at most 8 * 2^48 * 2^24 * ..., so it is checked
    for (const uint64_t size : file.shape) {
      if (__builtin_mul_overflow(data, size, &data)) FailJson(where, "has a size above 64 bits");
    }
    if (file.bytes < data) FailJson(fields.Path("bytes"), "is less than the shape needs");
    file.crc32c = ParseChecksum(fields.String("crc32c"), fields.Path("crc32c"));
    fields.Finish();
    return file;
  }

  static std::vector<uint64_t> Shape(const json& value, const std::string& where,
                                     const Need& need) {
    std::vector<uint64_t> shape;
    for (const json& size : value) {
      if (!size.is_number_unsigned()) FailJson(where, "has something other than a size");
      shape.push_back(size.get<uint64_t>());
    }
    bool fits = shape.size() == need.shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      fits = need.shape[i] == kAny ? shape[i] <= need.most : shape[i] == need.shape[i];
    }
    if (!fits) FailJson(where, "is " + value.dump() + ", which contradicts the counts of its type");
    return shape;
  }

  std::string context_;
  std::set<std::string> files_;
};

}  // namespace

Manifest ParseManifestFields(const json& root, std::string_view context) {
  return Parser(context).Parse(root);
}

}  // namespace offpath::graph
