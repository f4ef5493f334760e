#include "offpath/graph/store/verify.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/store.h"
#include "offpath/graph/store/stored_array.h"
#include "offpath/graph/store/utf8.h"

namespace offpath::graph {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;
// Of the set of edge ids that were seen: more ids than bits are checked in several passes.
constexpr uint64_t kSeenIds = uint64_t{1} << 31;

// One kind of problem in one file: what the first is, and how many there are.
class Tally {
 public:
  template <typename Describe>
  void Add(const Describe& describe) {
    if (count_++ == 0) first_ = describe();
  }
  void Report(const std::string& file, std::vector<VerifyProblem>& problems) const {
    if (count_ == 0) return;
    const std::string more =
        count_ == 1 ? "" : " (and " + std::to_string(count_ - 1) + " more of that kind)";
    problems.push_back({file, first_ + more});
  }
  bool empty() const noexcept { return count_ == 0; }

 private:
  uint64_t count_ = 0;
  std::string first_;
};

class Verifier {
 public:
  Verifier(const std::string& folder, const Manifest& manifest, const Progress& progress)
      : folder_(folder), manifest_(manifest), progress_(progress) {
    ForEachFile([&](const ManifestFile& entry) {
      ++report_.files;
      report_.bytes += entry.bytes;
    });
  }

  VerifyReport Run() {
    for (const ManifestNodeType& type : manifest_.node_types) CheckNodeType(type);
    for (const ManifestEdgeType& type : manifest_.edge_types) CheckEdgeType(type);
    return std::move(report_);
  }

 private:
  template <typename Visit>
  void ForEachFile(const Visit& visit) const {
    const auto optional = [&](const std::optional<ManifestFile>& entry) {
      if (entry) visit(*entry);
    };
    for (const ManifestNodeType& type : manifest_.node_types) {
      for (const auto* entry : {&type.features, &type.labels, &type.original_ids,
                                &type.name_offsets, &type.name_bytes}) {
        optional(*entry);
      }
      for (const auto& [name, entry] : type.splits) visit(entry);
    }
    for (const ManifestEdgeType& type : manifest_.edge_types) {
      visit(type.indptr);
      visit(type.indices);
      for (const auto* entry : {&type.edge_ids, &type.weights, &type.times, &type.features}) {
        optional(*entry);
      }
    }
  }

  void Problem(const std::string& file, std::string message) {
    report_.problems.push_back({file, std::move(message)});
  }

  // Maps a file; a file that is not what the manifest says is a problem, and nothing is returned.
  std::optional<StoredArray> Map(const ManifestFile& entry) {
    try {
      return MapStoredArray(folder_, entry, AccessPattern::kSequential);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kResourceExhausted) throw;
      Problem(entry.name, std::string(error.message()));
      Pass(entry.bytes);
      return std::nullopt;
    }
  }

  void Pass(uint64_t bytes) {
    done_ += bytes;
    if (progress_) progress_("verifying", done_, report_.bytes);
  }

  // Reads a file once: its checksum, and each piece of its data by `check(first element, values)`.
  template <typename T, typename Check>
  void Scan(const ManifestFile& entry, const StoredArray& array, const Check& check) {
    const auto bytes = array.file.bytes();
    const size_t header = bytes.size() - array.data.size();
    uint32_t crc = Crc32c(bytes.first(header));
    Pass(header);
    const auto values = array.As<T>();
    constexpr size_t kPiece = kPieceBytes / sizeof(T);
    for (size_t first = 0; first < values.size(); first += kPiece) {
      const auto piece = values.subspan(first, std::min(kPiece, values.size() - first));
      crc = Crc32c(std::as_bytes(piece), crc);
      check(static_cast<uint64_t>(first), piece);
      Pass(piece.size_bytes());
    }
    if (crc != entry.crc32c) {
      Problem(entry.name, "its content does not fit its checksum in the manifest");
    }
    try {
      array.file.CheckIntact();
    } catch (const Error& error) {
      Problem(entry.name, std::string(error.message()));
    }
  }

  // Reports the values that `good` refuses.
  template <typename T, typename Good>
  void ScanValues(const std::optional<ManifestFile>& entry, std::string_view what,
                  const Good& good) {
    if (!entry) return;
    const auto array = Map(*entry);
    if (!array) return;
    Tally bad;
    Scan<T>(*entry, *array, [&](uint64_t first, std::span<const T> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (good(values[i])) continue;
        bad.Add([&] {
          return "entry " + std::to_string(first + i) + " is " + std::to_string(values[i]) + ", " +
                 std::string(what);
        });
      }
    });
    bad.Report(entry->name, report_.problems);
  }

  void CheckNodeType(const ManifestNodeType& type) {
    const auto finite = [](float value) { return std::isfinite(value); };
    const auto any = [](int64_t) { return true; };
    ScanValues<float>(type.features, "which is not finite", finite);
    ScanValues<int64_t>(type.labels,
                        "no class below " + std::to_string(type.num_classes) + " and not -1",
                        [&](int64_t label) { return label >= -1 && label < type.num_classes; });
    ScanValues<int64_t>(type.original_ids, "", any);
    CheckNames(type);
    for (const auto& [name, entry] : type.splits) {
      ScanValues<int64_t>(entry, "out of range for " + std::to_string(type.count) + " nodes",
                          [&](int64_t node) { return node >= 0 && node < type.count; });
    }
  }

  void CheckNames(const ManifestNodeType& type) {
    if (!type.name_offsets) return;
    const auto offsets = Map(*type.name_offsets);
    const auto text = Map(*type.name_bytes);
    if (!offsets || !text) return;
    const auto size = static_cast<int64_t>(text->data.size());
    const auto* letters = reinterpret_cast<const char*>(text->data.data());
    Tally disordered, not_utf8;
    int64_t last = 0;
    Scan<int64_t>(*type.name_offsets, *offsets, [&](uint64_t first, std::span<const int64_t> ends) {
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
    disordered.Report(type.name_offsets->name, report_.problems);
    Scan<uint8_t>(*type.name_bytes, *text, [](uint64_t, std::span<const uint8_t>) {});
    not_utf8.Report(type.name_bytes->name, report_.problems);
  }

  void CheckEdgeType(const ManifestEdgeType& type) {
    const auto indptr = Map(type.indptr);
    bool rises = false;
    if (indptr) rises = CheckIndptr(type, *indptr);
    const auto indices = Map(type.indices);
    std::optional<StoredArray> ids;
    if (type.edge_ids) ids = Map(*type.edge_ids);
    if (indices) {
      const std::span<const int64_t> starts =
          rises ? indptr->As<int64_t>() : std::span<const int64_t>();
      const IdArray id_values = ids ? IdArray{ids->data.data(), type.edge_ids->shape[0],
                                              type.edge_ids->type == NpyType::kU32}
                                    : IdArray();
      if (type.indices.type == NpyType::kU32) {
        CheckIndices<uint32_t>(type, *indices, starts, id_values);
      } else {
        CheckIndices<int64_t>(type, *indices, starts, id_values);
      }
    }
    if (ids) {
      if (type.edge_ids->type == NpyType::kU32) {
        CheckEdgeIds<uint32_t>(type, *ids);
      } else {
        CheckEdgeIds<int64_t>(type, *ids);
      }
    }
    ScanValues<float>(type.weights, "which is no weight: finite and not negative",
                      [](float weight) { return std::isfinite(weight) && weight >= 0; });
    ScanValues<int64_t>(type.times, "", [](int64_t) { return true; });
    ScanValues<float>(type.features, "which is not finite",
                      [](float value) { return std::isfinite(value); });
  }

  bool CheckIndptr(const ManifestEdgeType& type, const StoredArray& array) {
    Tally bad;
    int64_t last = 0;
    Scan<int64_t>(type.indptr, array, [&](uint64_t first, std::span<const int64_t> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        const bool is_start = first + i == 0;
        const bool is_end = first + i + 1 == type.indptr.shape[0];
        if (values[i] < last || values[i] > type.num_edges || (is_start && values[i] != 0) ||
            (is_end && values[i] != type.num_edges)) {
          bad.Add([&] {
            return "entry " + std::to_string(first + i) + " is " + std::to_string(values[i]) +
                   ", where indptr rises from 0 to " + std::to_string(type.num_edges) +
                   " and stood at " + std::to_string(last);
          });
        }
        last = values[i];
      }
    });
    bad.Report(type.indptr.name, report_.problems);
    return bad.empty();
  }

  // `starts`: indptr, or empty where it is damaged and the order cannot be checked.
  template <typename T>
  void CheckIndices(const ManifestEdgeType& type, const StoredArray& array,
                    std::span<const int64_t> starts, const IdArray& ids) {
    const auto num_src = static_cast<uint64_t>(manifest_.node_types[type.src_type].count);
    Tally outside, unsorted;
    size_t dst = 0;  // the destination whose edges are passed
    uint64_t last = 0;
    int64_t last_id = 0;
    Scan<T>(type.indices, array, [&](uint64_t first, std::span<const T> sources) {
      for (size_t i = 0; i < sources.size(); ++i) {
        const auto source = static_cast<uint64_t>(sources[i]);
        const uint64_t position = first + i;
        if (source >= num_src) {
          outside.Add([&] {
            return "entry " + std::to_string(position) + " is " + std::to_string(sources[i]) +
                   ", out of range for " + std::to_string(num_src) + " source nodes";
          });
        }
        if (starts.empty()) continue;
        bool first_of_dst = position == 0;
        // Within the array, whatever it holds by now: a file that is cut meanwhile reads as zeros.
        while (dst + 2 < starts.size() && static_cast<uint64_t>(starts[dst + 1]) <= position) {
          ++dst;
          first_of_dst = true;
        }
        const int64_t id = ids.data == nullptr ? static_cast<int64_t>(position) : ids[position];
        if (!first_of_dst && (source < last || (source == last && id <= last_id))) {
          unsorted.Add([&] {
            return "entry " + std::to_string(position) + ", an edge into node " +
                   std::to_string(dst) + ", is out of order: edges are sorted by source, then id";
          });
        }
        last = source;
        last_id = id;
      }
    });
    outside.Report(type.indices.name, report_.problems);
    unsorted.Report(type.indices.name, report_.problems);
  }

  template <typename T>
  void CheckEdgeIds(const ManifestEdgeType& type, const StoredArray& array) {
    const auto limit = static_cast<uint64_t>(type.num_edge_ids);
    Tally outside, repeated;
    std::vector<bool> seen;
    for (uint64_t low = 0; low < std::max<uint64_t>(limit, 1); low += kSeenIds) {
      seen.assign(static_cast<size_t>(std::min(kSeenIds, limit - std::min(limit, low))), false);
      const auto check = [&](uint64_t first, std::span<const T> ids) {
        for (size_t i = 0; i < ids.size(); ++i) {
          const auto id = static_cast<uint64_t>(ids[i]);
          const auto entry = [&] {
            return "entry " + std::to_string(first + i) + " is " + std::to_string(ids[i]);
          };
          if (id >= limit) {
            if (low == 0) {
              outside.Add([&] {
                return entry() + ", out of range for " + std::to_string(limit) + " edge ids";
              });
            }
          } else if (id >= low && id - low < seen.size()) {
            if (seen[id - low]) repeated.Add([&] { return entry() + ", an edge id used before"; });
            seen[id - low] = true;
          }
        }
      };
      if (low == 0) {
        Scan<T>(*type.edge_ids, array, check);
      } else {
        check(0, array.As<T>());
      }
    }
    outside.Report(type.edge_ids->name, report_.problems);
    repeated.Report(type.edge_ids->name, report_.problems);
  }

  const std::string& folder_;
  const Manifest& manifest_;
  const Progress& progress_;
  VerifyReport report_;
  uint64_t done_ = 0;
};

}  // namespace

VerifyReport VerifyStore(const std::string& folder, const Progress& progress) {
  Manifest manifest;
  try {
    manifest = ReadManifest(folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruptData && error.code() != ErrorCode::kUnsupported) throw;
    VerifyReport report;
    report.problems.push_back({std::string(kManifestName), std::string(error.message())});
    return report;
  }
  return Verifier(folder, manifest, progress).Run();
}

}  // namespace offpath::graph
