#include "offpath/graph/store/verify.h"

#include <cmath>
#include <optional>

#include "offpath/base/error.h"
#include "offpath/graph/store/held_folder.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/utf8.h"
#include "offpath/graph/store/verify_edges.h"
#include "offpath/graph/store/verify_scan.h"

namespace offpath::graph {
namespace {

template <typename Visit>
void ForEachFile(const Manifest& manifest, const Visit& visit) {
  const auto optional = [&](const std::optional<ManifestFile>& entry) {
    if (entry) visit(*entry);
  };
  for (const ManifestNodeType& type : manifest.node_types) {
    for (const auto* entry :
         {&type.features, &type.labels, &type.original_ids, &type.name_offsets, &type.name_bytes}) {
      optional(*entry);
    }
    for (const auto& [name, entry] : type.splits) visit(entry);
  }
  for (const ManifestEdgeType& type : manifest.edge_types) {
    visit(type.indptr);
    visit(type.indices);
    for (const auto* entry : {&type.edge_ids, &type.weights, &type.times, &type.features}) {
      optional(*entry);
    }
  }
}

void VerifyNames(const ManifestNodeType& type, VerifyScan& scan) {
  if (!type.name_offsets) return;
  const auto offsets = scan.Map(*type.name_offsets);
  const auto text = scan.Map(*type.name_bytes);
  if (!offsets || !text) return;
  const auto size = static_cast<int64_t>(text->data.size());
  const auto* letters = reinterpret_cast<const char*>(text->data.data());
  Tally disordered, not_utf8;
  int64_t last = 0;
  scan.Values<int64_t>(
      *type.name_offsets, *offsets, [&](uint64_t first, std::span<const int64_t> ends) {
        for (size_t i = 0; i < ends.size(); ++i) {
          const int64_t end = ends[i];
          const bool is_start = first + i == 0;
          const bool is_last = first + i == static_cast<uint64_t>(type.count);
          if (end < last || end > size || (is_start && end != 0) || (is_last && end != size)) {
            disordered.Add([&] {
              return "entry " + std::to_string(first + i) + " is " + std::to_string(end) +
                     ", where names of " + std::to_string(size) + " bytes rise from " +
                     std::to_string(last);
            });
            continue;
          }
          if (!IsUtf8({letters + last, static_cast<size_t>(end - last)})) {
            not_utf8.Add([&] { return "name " + std::to_string(first + i - 1) + " is not UTF-8"; });
          }
          last = end;
        }
      });
  scan.Report(disordered, *type.name_offsets);
  scan.Values<uint8_t>(*type.name_bytes, *text, [](uint64_t, std::span<const uint8_t>) {});
  scan.Report(not_utf8, *type.name_bytes);
}

void VerifyNodeType(const ManifestNodeType& type, VerifyScan& scan) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto any = [](int64_t) { return true; };
  scan.EachValue<float>(type.features, "which is not finite", finite);
  scan.EachValue<int64_t>(type.labels,
                          "no class below " + std::to_string(type.num_classes) + " and not -1",
                          [&](int64_t label) { return label >= -1 && label < type.num_classes; });
  scan.EachValue<int64_t>(type.original_ids, "", any);
  VerifyNames(type, scan);
  for (const auto& [name, entry] : type.splits) {
    scan.EachValue<int64_t>(entry, "out of range for " + std::to_string(type.count) + " nodes",
                            [&](int64_t node) { return node >= 0 && node < type.count; });
  }
}

VerifyReport VerifyOnce(const std::string& folder, const Progress& progress) {
  Manifest manifest;
  try {
    manifest = ReadManifest(folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData && error.code() != ErrorCode::kUnsupported) throw;
    VerifyReport report;
    report.problems.push_back({std::string(kManifestName), std::string(error.message())});
    return report;
  }
  VerifyReport report;
  ForEachFile(manifest, [&](const ManifestFile& entry) {
    ++report.files;
    report.bytes += entry.bytes;
  });
  VerifyScan scan(folder, report.bytes, progress, report.problems);
  for (const ManifestNodeType& type : manifest.node_types) VerifyNodeType(type, scan);
  for (const ManifestEdgeType& type : manifest.edge_types) {
    VerifyEdgeType(type, manifest.node_types[type.src_type].count, scan);
  }
  return report;
}

}  // namespace

VerifyReport VerifyStore(const std::string& folder, const Progress& progress) {
  const HeldFolder held(folder);
  VerifyReport report = VerifyOnce(folder, progress);
  // With what is true of half of each.
  if (!held.StillThere()) {
    throw Error(ErrorCode::kUnavailable,
                folder + " was replaced while it was verified: verify it again");
  }
  return report;
}

}  // namespace offpath::graph
