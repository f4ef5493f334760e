#include "offpath/graph/store/manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"

namespace offpath::graph {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "offpath-store";
constexpr uint64_t kVersion = 1;
constexpr int kMaxDepth = 8;
constexpr size_t kMaxFileName = 200;
constexpr size_t kMaxDescription = 65536;

bool IsNameByte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool IsName(std::string_view name, size_t longest) noexcept {
  return !name.empty() && name.size() <= longest && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), IsNameByte);
}

std::string Hex(uint32_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(8, '0');
  for (size_t i = 0; i < 8; ++i) text[7 - i] = kDigits[(value >> (4 * i)) & 15];
  return text;
}

uint32_t ContentChecksum(json manifest) {
  manifest.erase("crc32c");
  const std::string text = manifest.dump();
  return Crc32c(std::as_bytes(std::span(text)));
}

// Where in the manifest a value stands, for messages: "store.json: edge_types[2].indptr.bytes".
[[noreturn]] void Fail(std::string_view where, std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, std::string(where) + " " + std::string(problem));
}

// An object whose fields are taken one by one. Finish() refuses what was not taken, so that a field
// with a damaged name is not silently lost.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) Fail(where_, "is not an object");
  }

  std::string Path(std::string_view field) const { return where_ + "." + std::string(field); }

  const json* Find(std::string_view field) {
    const auto found = object_.find(field);
    if (found == object_.end()) return nullptr;
    ++taken_;
    return &*found;
  }
  const json& Get(std::string_view field) {
    const json* found = Find(field);
    if (found == nullptr) Fail(Path(field), "is missing");
    return *found;
  }
  int64_t Count(std::string_view field, int64_t most = kMaxCount) {
    const json& value = Get(field);
    if (!value.is_number_unsigned()) Fail(Path(field), "is not a count");
    const auto count = value.get<uint64_t>();
    if (count > static_cast<uint64_t>(most)) {
      Fail(Path(field), "is " + std::to_string(count) + ", above " + std::to_string(most));
    }
    return static_cast<int64_t>(count);
  }
  const std::string& String(std::string_view field) {
    const json& value = Get(field);
    if (!value.is_string()) Fail(Path(field), "is not a string");
    return value.get_ref<const std::string&>();
  }
  const std::string& TypeName(std::string_view field) {
    const std::string& name = String(field);
    if (!IsTypeName(name)) Fail(Path(field), "is not a name of letters, digits, '_', '-' and '.'");
    return name;
  }
  const json& Array(std::string_view field, size_t most) {
    const json& value = Get(field);
    if (!value.is_array()) Fail(Path(field), "is not a list");
    if (value.size() > most) Fail(Path(field), "has more than " + std::to_string(most) + " items");
    return value;
  }
  void Finish() const {
    if (taken_ == object_.size()) return;
    Fail(where_, "has a field that this version does not know, among " + Keys());
  }

 private:
  std::string Keys() const {
    std::string keys;
    for (const auto& item : object_.items()) {
      if (keys.size() > 200) return keys + ", ...";
      keys += (keys.empty() ? "" : ", ") + item.key();
    }
    return keys;
  }
  const json& object_;
  std::string where_;
  size_t taken_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view context) : context_(context) {}

  Manifest Parse(const json& root) {
    Fields fields(root, context_ + ": the manifest");
    if (fields.String("format") != kFormat) Fail(fields.Path("format"), "is not offpath-store");
    const int64_t version = fields.Count("version");
    if (version != static_cast<int64_t>(kVersion)) {
      throw Error(ErrorCode::kUnsupported, fields.Path("version") + " is " +
                                               std::to_string(version) + "; this build reads " +
                                               std::to_string(kVersion) +
                                               ": import the graph again");
    }
    Manifest manifest;
    manifest.description = fields.String("description");
    if (manifest.description.size() > kMaxDescription) {
      Fail(fields.Path("description"), "is longer than 65536 bytes");
    }
    const json& node_types = fields.Array("node_types", kMaxTypes);
    for (size_t i = 0; i < node_types.size(); ++i) {
      ParseNodeType(node_types[i], Item("node_types", i), manifest);
    }
    const json& edge_types = fields.Array("edge_types", kMaxTypes);
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
    Fields fields(value, where);
    ManifestNodeType type;
    type.name = fields.TypeName("name");
    for (const ManifestNodeType& other : manifest.node_types) {
      if (other.name == type.name) Fail(fields.Path("name"), "is '" + type.name + "' twice");
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
      Fail(where, "has one of name_offsets and name_bytes without the other");
    }
    if (const json* splits = fields.Find("splits")) {
      if (!splits->is_object()) Fail(fields.Path("splits"), "is not an object");
      if (splits->size() > kMaxSplits) Fail(fields.Path("splits"), "has more than 64 splits");
      for (const auto& [name, file] : splits->items()) {
        const std::string split_where = fields.Path("splits." + name);
        if (!IsTypeName(name)) Fail(split_where, "is not named with letters and digits");
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
    Fail(where, "is '" + name + "', which is no node type of this store");
  }

  void ParseEdgeType(const json& value, const std::string& where, Manifest& manifest) {
    Fields fields(value, where);
    ManifestEdgeType type;
    type.src = fields.TypeName("src");
    type.relation = fields.TypeName("relation");
    type.dst = fields.TypeName("dst");
    type.src_type = NodeTypeNamed(manifest, type.src, fields.Path("src"));
    type.dst_type = NodeTypeNamed(manifest, type.dst, fields.Path("dst"));
    for (const ManifestEdgeType& other : manifest.edge_types) {
      if (other.src == type.src && other.relation == type.relation && other.dst == type.dst) {
        Fail(where, "is (" + type.src + ", " + type.relation + ", " + type.dst + ") twice");
      }
    }
    type.num_edges = fields.Count("num_edges");
    type.num_edge_ids = fields.Count("num_edge_ids");
    if (type.num_edge_ids < type.num_edges) {
      Fail(fields.Path("num_edge_ids"), "is below num_edges");
    }
    const auto edges = static_cast<uint64_t>(type.num_edges);
    const auto rows = static_cast<uint64_t>(manifest.node_types[type.dst_type].count) + 1;
    type.indptr = Required(fields, "indptr", {{NpyType::kI64}, {rows}});
    type.indices = Required(fields, "indices", {{NpyType::kU32, NpyType::kI64}, {edges}});
    type.edge_ids = Optional(fields, "edge_ids", {{NpyType::kU32, NpyType::kI64}, {edges}});
    if (!type.edge_ids && type.num_edge_ids != type.num_edges) {
      Fail(fields.Path("num_edge_ids"), "differs from num_edges though no edge_ids are stored");
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

  std::optional<ManifestFile> Optional(Fields& fields, std::string_view field, const Need& need) {
    const json* value = fields.Find(field);
    if (value == nullptr) return std::nullopt;
    return File(*value, fields.Path(field), need);
  }
  ManifestFile Required(Fields& fields, std::string_view field, const Need& need) {
    return File(fields.Get(field), fields.Path(field), need);
  }

  ManifestFile File(const json& value, const std::string& where, const Need& need) {
    Fields fields(value, where);
    ManifestFile file;
    file.name = fields.String("file");
    if (!IsName(file.name, kMaxFileName) || !file.name.ends_with(".npy")) {
      Fail(fields.Path("file"), "is not the name of a .npy file in the store's folder");
    }
    if (!files_.insert(file.name).second) {
      Fail(fields.Path("file"), "is '" + file.name + "', which another array has already");
    }
    const std::string& dtype = fields.String("dtype");
    const auto* type = std::find_if(need.types.begin(), need.types.end(),
                                    [&](NpyType t) { return NpyTypeName(t) == dtype; });
    if (type == need.types.end()) {
      Fail(fields.Path("dtype"), "is '" + dtype.substr(0, 32) + "' where " +
                                     std::string(NpyTypeName(*need.types.begin())) + " is needed");
    }
    file.type = *type;
    file.shape = Shape(fields.Array("shape", 2), fields.Path("shape"), need);
    file.bytes = static_cast<uint64_t>(fields.Count("bytes", int64_t{1} << 62));
    uint64_t data = NpyTypeSize(file.type);  // at most 8 * 2^48 * 2^24 * ..., so it is checked
    for (const uint64_t size : file.shape) {
      if (__builtin_mul_overflow(data, size, &data)) Fail(where, "has a size above 64 bits");
    }
    if (file.bytes < data) Fail(fields.Path("bytes"), "is less than the shape needs");
    file.crc32c = Checksum(fields.String("crc32c"), fields.Path("crc32c"));
    fields.Finish();
    return file;
  }

  static std::vector<uint64_t> Shape(const json& value, const std::string& where,
                                     const Need& need) {
    std::vector<uint64_t> shape;
    for (const json& size : value) {
      if (!size.is_number_unsigned()) Fail(where, "has something other than a size");
      shape.push_back(size.get<uint64_t>());
    }
    bool fits = shape.size() == need.shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      fits = need.shape[i] == kAny ? shape[i] <= need.most : shape[i] == need.shape[i];
    }
    if (!fits) Fail(where, "is " + value.dump() + ", which contradicts the counts of its type");
    return shape;
  }

 public:
  static uint32_t Checksum(const std::string& text, std::string_view where) {
    uint32_t value = 0;
    const char* end = text.data() + text.size();
    const auto [parsed_to, error] = std::from_chars(text.data(), end, value, 16);
    if (text.size() != 8 || error != std::errc{} || parsed_to != end) {
      Fail(where, "is not a checksum of 8 hexadecimal digits");
    }
    return value;
  }

 private:
  std::string context_;
  std::set<std::string> files_;
};

// Parses JSON, refusing what would make the meaning depend on the parser: keys given twice, and
// nesting that no manifest has.
json ParseJson(std::string_view text, std::string_view context) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth && problem.empty()) problem = "is nested too deeply";
    if (!problem.empty()) return false;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      problem = "has the field '" + parsed.get<std::string>() + "' twice in one object";
    }
    return true;
  };
  json root;
  try {
    root = json::parse(text, check);
  } catch (const json::exception& error) {
    Fail(context, std::string("is not JSON: ") + error.what());
  }
  if (!problem.empty()) Fail(context, problem);
  return root;
}

ordered_json FileJson(const ManifestFile& file) {
  return {{"file", file.name},
          {"dtype", NpyTypeName(file.type)},
          {"shape", file.shape},
          {"bytes", file.bytes},
          {"crc32c", Hex(file.crc32c)}};
}

void PutOptional(ordered_json& object, const char* field, const std::optional<ManifestFile>& file) {
  if (file) object[field] = FileJson(*file);
}

ordered_json NodeTypeJson(const ManifestNodeType& type) {
  ordered_json object = {
      {"name", type.name}, {"count", type.count}, {"num_classes", type.num_classes}};
  PutOptional(object, "features", type.features);
  PutOptional(object, "labels", type.labels);
  PutOptional(object, "original_ids", type.original_ids);
  PutOptional(object, "name_offsets", type.name_offsets);
  PutOptional(object, "name_bytes", type.name_bytes);
  for (const auto& [name, file] : type.splits) object["splits"][name] = FileJson(file);
  return object;
}

ordered_json EdgeTypeJson(const ManifestEdgeType& type) {
  ordered_json object = {{"src", type.src},
                         {"relation", type.relation},
                         {"dst", type.dst},
                         {"num_edges", type.num_edges},
                         {"num_edge_ids", type.num_edge_ids},
                         {"indptr", FileJson(type.indptr)},
                         {"indices", FileJson(type.indices)}};
  PutOptional(object, "edge_ids", type.edge_ids);
  PutOptional(object, "weights", type.weights);
  PutOptional(object, "times", type.times);
  PutOptional(object, "features", type.features);
  return object;
}

}  // namespace

bool IsTypeName(std::string_view name) noexcept { return IsName(name, 100); }

Manifest ParseManifest(std::string_view text, std::string_view context, ManifestChecksum checksum) {
  if (text.size() > kMaxManifestBytes) Fail(context, "is larger than 16 MiB");
  const json root = ParseJson(text, context);
  Manifest manifest = Parser(context).Parse(root);
  if (checksum == ManifestChecksum::kRequire) {
    const std::string where = std::string(context) + ": the manifest.crc32c";
    const auto found = root.find("crc32c");
    if (found == root.end() || !found->is_string()) Fail(where, "is missing");
    if (Parser::Checksum(found->get_ref<const std::string&>(), where) != ContentChecksum(root)) {
      Fail(where, "does not fit the content: the file was damaged or edited");
    }
  }
  return manifest;
}

std::string FormatManifest(const Manifest& manifest) {
  ordered_json root = {{"format", kFormat},
                       {"version", kVersion},
                       {"description", manifest.description.substr(0, kMaxDescription)},
                       {"node_types", ordered_json::array()},
                       {"edge_types", ordered_json::array()}};
  for (const auto& type : manifest.node_types) root["node_types"].push_back(NodeTypeJson(type));
  for (const auto& type : manifest.edge_types) root["edge_types"].push_back(EdgeTypeJson(type));
  const auto dump = [&] {
    return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  };
  root["crc32c"] = Hex(ContentChecksum(json::parse(dump())));
  return dump();
}

Manifest ReadManifest(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kManifestName);
  try {
    const MappedFile file(path, AccessPattern::kSequential);
    const auto bytes = file.bytes();
    if (bytes.size() > kMaxManifestBytes) Fail(path, "is larger than 16 MiB");
    // A copy: the parser must not meet a file that changes under it.
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    file.CheckIntact();
    return ParseManifest(text, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw Error(ErrorCode::kNotFound, folder +
                                          " is not a store: it has no store.json (make one with "
                                          "`offpath graph import SOURCE " +
                                          folder + "`)");
  }
}

}  // namespace offpath::graph
