// What verifying a file has in common: mapping it, its checksum, its values by pieces, the
// progress, and the report. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "offpath/base/crc32c.h"
#include "offpath/base/progress.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/stored_array.h"
#include "offpath/graph/store/verify.h"

namespace offpath::graph {

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

// Goes through the files of one store.
class VerifyScan {
 public:
  // `bytes`: of all files, for the progress. All three must outlive it.
  VerifyScan(const std::string& folder, uint64_t bytes, const Progress& progress,
             std::vector<VerifyProblem>& problems)
      : folder_(folder), bytes_(bytes), progress_(progress), problems_(problems) {}

  // Maps a file; a file that is not what the manifest says is a problem, and nothing is returned.
  std::optional<StoredArray> Map(const ManifestFile& entry);

  // Reads a file in order: its checksum, and each piece of its data by `check(first element,
  // values)`.
  template <typename T, typename Check>
  void Values(const ManifestFile& entry, const StoredArray& array, const Check& check) {
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
    Finish(entry, array, crc);
  }

  // Scans a file and reports the values that `good` refuses.
  template <typename T, typename Good>
  void EachValue(const std::optional<ManifestFile>& entry, std::string_view what,
                 const Good& good) {
    if (!entry) return;
    const auto array = Map(*entry);
    if (!array) return;
    Tally bad;
    Values<T>(*entry, *array, [&](uint64_t first, std::span<const T> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (good(values[i])) continue;
        bad.Add([&] {
          return "entry " + std::to_string(first + i) + " is " + std::to_string(values[i]) + ", " +
                 std::string(what);
        });
      }
    });
    bad.Report(entry->name, problems_);
  }

  void Report(const Tally& tally, const ManifestFile& entry) {
    tally.Report(entry.name, problems_);
  }

 private:
  static constexpr size_t kPieceBytes = size_t{4} << 20;

  void Problem(const std::string& file, std::string message);
  void Pass(uint64_t bytes);
  void Finish(const ManifestFile& entry, const StoredArray& array, uint32_t crc);

  const std::string& folder_;
  uint64_t bytes_;
  const Progress& progress_;
  std::vector<VerifyProblem>& problems_;
  uint64_t done_ = 0;
};

}  // namespace offpath::graph
