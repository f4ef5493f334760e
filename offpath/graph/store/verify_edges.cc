#include "offpath/graph/store/verify_edges.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "offpath/graph/store/store.h"

namespace offpath::graph {
namespace {

// Both take 256 MiB.
constexpr uint64_t kSortedIds = uint64_t{1} << 24;
constexpr uint64_t kSeenBits = uint64_t{1} << 31;

std::string EntryIs(uint64_t position, uint64_t id) {
  return "entry " + std::to_string(position) + " is " + std::to_string(static_cast<int64_t>(id));
}

// Calls report(position, id) for each id that stands at an earlier position too; those from `limit`
// on do not count. Takes no longer for ids that are far apart.
template <typename T, typename Report>
void FindRepeatedBySorting(std::span<const T> ids, uint64_t limit, const Report& report) {
  std::vector<std::pair<uint64_t, uint64_t>> sorted;  // id, position
  sorted.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    if (id < limit) sorted.emplace_back(id, i);
  }
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].first == sorted[i - 1].first) report(sorted[i].second, sorted[i].first);
  }
}

// The same, faster for ids that are close together: a pass over them for each kSeenBits of `limit`.
template <typename T, typename Report>
void FindRepeatedByBits(std::span<const T> ids, uint64_t limit, const Report& report) {
  std::vector<bool> seen;
  for (uint64_t low = 0; low < limit; low += kSeenBits) {
    seen.assign(static_cast<size_t>(std::min(kSeenBits, limit - low)), false);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<uint64_t>(ids[i]);
      if (id < low || id - low >= seen.size()) continue;
      if (seen[id - low]) report(i, id);
      seen[id - low] = true;
    }
  }
}

class EdgeTypeVerifier {
 public:
  EdgeTypeVerifier(const ManifestEdgeType& type, int64_t num_src, VerifyScan& scan)
      : type_(type), num_src_(num_src), scan_(scan) {}

  void Run() {
    const auto indptr = scan_.Map(type_.indptr);
    bool rises = false;
    if (indptr) rises = CheckIndptr(*indptr);
    const auto indices = scan_.Map(type_.indices);
    std::optional<StoredArray> ids;
    if (type_.edge_ids) ids = scan_.Map(*type_.edge_ids);
    if (indices) {
      const std::span<const int64_t> starts =
          rises ? indptr->As<int64_t>() : std::span<const int64_t>();
      const IdArray id_values = ids ? IdArray{ids->data.data(), type_.edge_ids->shape[0],
                                              type_.edge_ids->type == NpyType::kU32}
                                    : IdArray();
      if (type_.indices.type == NpyType::kU32) {
        CheckIndices<uint32_t>(*indices, starts, id_values);
      } else {
        CheckIndices<int64_t>(*indices, starts, id_values);
      }
    }
    if (ids) {
      if (type_.edge_ids->type == NpyType::kU32) {
        CheckEdgeIds<uint32_t>(*ids);
      } else {
        CheckEdgeIds<int64_t>(*ids);
      }
    }
    scan_.EachValue<float>(type_.weights, "which is no weight: finite and not negative",
                           [](float weight) { return std::isfinite(weight) && weight >= 0; });
    scan_.EachValue<int64_t>(type_.times, "", [](int64_t) { return true; });
    scan_.EachValue<float>(type_.features, "which is not finite",
                           [](float value) { return std::isfinite(value); });
  }

 private:
  bool CheckIndptr(const StoredArray& array) {
    Tally bad;
    int64_t last = 0;
    scan_.Values<int64_t>(
        type_.indptr, array, [&](uint64_t first, std::span<const int64_t> values) {
          for (size_t i = 0; i < values.size(); ++i) {
            const bool is_start = first + i == 0;
            const bool is_end = first + i + 1 == type_.indptr.shape[0];
            if (values[i] < last || values[i] > type_.num_edges || (is_start && values[i] != 0) ||
                (is_end && values[i] != type_.num_edges)) {
              bad.Add([&] {
                return "entry " + std::to_string(first + i) + " is " + std::to_string(values[i]) +
                       ", where indptr rises from 0 to " + std::to_string(type_.num_edges) +
                       " and stood at " + std::to_string(last);
              });
            }
            last = values[i];
          }
        });
    scan_.Report(bad, type_.indptr);
    return bad.empty();
  }

  // `starts`: indptr, or empty where it is damaged and the order cannot be checked.
  template <typename T>
  void CheckIndices(const StoredArray& array, std::span<const int64_t> starts, const IdArray& ids) {
    const auto num_src = static_cast<uint64_t>(num_src_);
    Tally outside, unsorted;
    size_t dst = 0;  // the destination whose edges are passed
    uint64_t last = 0;
    int64_t last_id = 0;
    scan_.Values<T>(type_.indices, array, [&](uint64_t first, std::span<const T> sources) {
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
    scan_.Report(outside, type_.indices);
    scan_.Report(unsorted, type_.indices);
  }

  template <typename T>
  void CheckEdgeIds(const StoredArray& array) {
    const auto limit = static_cast<uint64_t>(type_.num_edge_ids);
    Tally outside, repeated;
    scan_.Values<T>(*type_.edge_ids, array, [&](uint64_t first, std::span<const T> ids) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (static_cast<uint64_t>(ids[i]) < limit) continue;
        outside.Add([&] {
          return EntryIs(first + i, ids[i]) + ", out of range for " + std::to_string(limit) +
                 " edge ids";
        });
      }
    });
    const auto report = [&](uint64_t position, uint64_t id) {
      repeated.Add([&] { return EntryIs(position, id) + ", an edge id used before"; });
    };
    if (array.As<T>().size() <= kSortedIds) {
      FindRepeatedBySorting(array.As<T>(), limit, report);
    } else {
      FindRepeatedByBits(array.As<T>(), limit, report);
    }
    scan_.Report(outside, *type_.edge_ids);
    scan_.Report(repeated, *type_.edge_ids);
  }

  const ManifestEdgeType& type_;
  int64_t num_src_;
  VerifyScan& scan_;
};

}  // namespace

void VerifyEdgeType(const ManifestEdgeType& type, int64_t num_src, VerifyScan& scan) {
  EdgeTypeVerifier(type, num_src, scan).Run();
}

}  // namespace offpath::graph
