#include "offpath/graph/store/node_type_writer.h"

#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/npy.h"
#include "offpath/graph/store/utf8.h"

namespace offpath::graph {
namespace {

[[noreturn]] void Invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

ManifestFile Close(NpyWriter& writer, const std::string& file, NpyType type) {
  const auto result = writer.Finish();
  return {file, type, result.shape, result.bytes, result.crc32c};
}

}  // namespace

NodeTypeWriter::NodeTypeWriter(std::string folder, size_t index, const std::string& name,
                               int64_t count)
    : folder_(std::move(folder)), index_(index) {
  entry_.name = name;
  entry_.count = count;
}

std::string NodeTypeWriter::File(const std::string& role) const {
  return "nodes-" + std::to_string(index_) + "-" + role + ".npy";
}
std::string NodeTypeWriter::Path(const std::string& file) const { return folder_ + "/" + file; }

ManifestFile NodeTypeWriter::WriteInts(const std::string& role,
                                       std::span<const int64_t> values) const {
  const std::string file = File(role);
  NpyWriter writer(Path(file), NpyType::kI64, {values.size()});
  writer.WriteValues(values);
  return Close(writer, file, NpyType::kI64);
}

void NodeTypeWriter::CheckCount(const std::string& what, size_t given) const {
  if (static_cast<uint64_t>(entry_.count) == given) return;
  Invalid(what + " has " + std::to_string(given) + " entries where the type has " +
          std::to_string(entry_.count) + " nodes");
}

void NodeTypeWriter::AppendFeatures(std::span<const float> rows, int64_t dim) {
  features_.Append(Path(File("features")), "'" + entry_.name + "'", rows, dim);
}

void NodeTypeWriter::SetLabels(std::span<const int64_t> labels, int64_t num_classes) {
  const std::string what = "labels of '" + entry_.name + "'";
  CheckCount(what, labels.size());
  if (num_classes < 0 || num_classes > kMaxCount) {
    Invalid(what + ": " + std::to_string(num_classes) + " classes are not possible");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= -1 && labels[i] < num_classes) continue;
    Invalid(what + ": node " + std::to_string(i) + " has label " + std::to_string(labels[i]) +
            "; classes are 0 to " + std::to_string(num_classes - 1) + ", and -1 is unlabelled");
  }
  entry_.labels = WriteInts("labels", labels);
  entry_.num_classes = num_classes;
}

void NodeTypeWriter::SetSplit(const std::string& split, std::span<const int64_t> nodes) {
  const std::string what = "split '" + split + "' of '" + entry_.name + "'";
  if (!IsTypeName(split)) Invalid(what + " is not named with letters, digits, '_', '-' and '.'");
  if (entry_.splits.size() == kMaxSplits && entry_.splits.count(split) == 0) {
    Invalid(what + ": a node type has at most 64 splits");
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] >= 0 && nodes[i] < entry_.count) continue;
    Invalid(what + ": entry " + std::to_string(i) + " is node " + std::to_string(nodes[i]) +
            ", out of range for " + std::to_string(entry_.count) + " nodes");
  }
  entry_.splits[split] = WriteInts("split-" + split, nodes);
}

void NodeTypeWriter::SetOriginalIds(std::span<const int64_t> ids) {
  CheckCount("original ids of '" + entry_.name + "'", ids.size());
  entry_.original_ids = WriteInts("original_ids", ids);
}

void NodeTypeWriter::SetNames(const std::vector<std::string>& names) {
  CheckCount("names of '" + entry_.name + "'", names.size());
  const std::string offsets_file = File("name_offsets");
  const std::string bytes_file = File("name_bytes");
  NpyWriter offsets(Path(offsets_file), NpyType::kI64, {0});
  NpyWriter bytes(Path(bytes_file), NpyType::kU8, {0});
  int64_t position = 0;
  offsets.WriteValues(std::span<const int64_t>(&position, 1));
  for (size_t i = 0; i < names.size(); ++i) {
    if (!IsUtf8(names[i])) {
      Invalid("names of '" + entry_.name + "': row " + std::to_string(i) + " is not UTF-8");
    }
    bytes.Write(std::as_bytes(std::span(names[i])));
    position += static_cast<int64_t>(names[i].size());
    offsets.WriteValues(std::span<const int64_t>(&position, 1));
  }
  entry_.name_offsets = Close(offsets, offsets_file, NpyType::kI64);
  entry_.name_bytes = Close(bytes, bytes_file, NpyType::kU8);
}

ManifestNodeType NodeTypeWriter::Finish() {
  if (!features_.empty()) {
    if (features_.rows() != entry_.count) {
      Invalid("features of '" + entry_.name + "' have " + std::to_string(features_.rows()) +
              " rows where the type has " + std::to_string(entry_.count) + " nodes");
    }
    entry_.features = features_.Finish(File("features"));
  }
  return std::move(entry_);
}

}  // namespace offpath::graph
