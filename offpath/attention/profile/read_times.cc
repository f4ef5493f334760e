#include "offpath/attention/profile/read_times.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "offpath/attention/decode/step.h"
#include "offpath/base/error.h"
#include "offpath/base/random.h"

namespace offpath::attention {
namespace {

constexpr size_t kFileBytes = size_t{256} << 20;  // so that a disk's own cache does not hold it
constexpr size_t kRunBytes = size_t{4} << 20;     // written at a time
constexpr uint64_t kSeed = 11;
constexpr std::chrono::seconds kPatience{10};

}  // namespace

double ColdBlocks(size_t blocks, size_t hot_blocks, double cold_share) noexcept {
  const auto within = static_cast<double>(std::min(blocks, hot_blocks));
  return static_cast<double>(blocks) - (1 - cold_share) * within;
}

ProfiledFile::ProfiledFile(const ProfileOptions& options, const Progress& progress)
    : options_(options),
      file_({.folder = options.folder,
             .block_bytes = LayOutHeadBlock(options.shape.kv).bytes,
             .queue_depth = options.queue_depth}) {
  const size_t bytes = file_.block_bytes();
  const size_t run = std::max<size_t>(1, kRunBytes / bytes);
  // Random bytes: a file system that packs or finds repeats does not here.
  Buffer<std::byte> blocks(run * bytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks.data()[i] = static_cast<std::byte>(Draw(kSeed, i) & 255);
  }
  const size_t wanted = std::max(run, kFileBytes / file_.slot_bytes() / run * run);
  for (; held_ < wanted; held_ += run) {
    progress("filling a file in " + options.folder, held_, wanted);
    file_.Write(held_, {blocks.data(), blocks.size()});
  }
}

Quantiles ProfiledFile::MeasureReads(size_t blocks) {
  if (blocks == 0) return {};
  const size_t slot = AlignToTier(file_.block_bytes());
  memory_.resize(blocks * slot + kTierAlignment);
  auto* const first =
      reinterpret_cast<std::byte*>(AlignToTier(reinterpret_cast<uintptr_t>(memory_.data())));
  done_.resize(blocks);
  std::vector<uint64_t> times;
  uint64_t draws = 0;
  for (size_t step = 0; step < options_.steps; ++step) {
    reads_.clear();
    for (size_t i = 0; i < blocks; ++i) {
      reads_.push_back(
          {.block = Below(Draw(kSeed + 1, draws++), held_), .into = first + i * slot, .tag = i});
    }
    const uint64_t begin = NowNs();
    file_.Submit(reads_);
    for (size_t left = blocks; left > 0;) {
      const size_t count = file_.Collect(done_, Deadline::After(kPatience));
      if (count == 0) {
        throw Error(ErrorCode::kTimeout, "a read of the file in " + options_.folder +
                                             " did not end within 10 s: try another folder");
      }
      for (size_t i = 0; i < count; ++i) {
        if (!done_[i].error.empty()) throw Error(ErrorCode::kUnavailable, done_[i].error);
      }
      left -= count;
    }
    times.push_back(NowNs() - begin);
  }
  return QuantilesOf(times);
}

}  // namespace offpath::attention
