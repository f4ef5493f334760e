// A block file that is damaged in any way while it is in use: a read gives what was written or an
// error, never other bytes.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "offpath/attention/tier/block_file.h"
#include "offpath/base/error.h"
#include "offpath/base/random.h"

namespace {

using namespace offpath::attention;

constexpr size_t kBlocks = 6;
constexpr size_t kBytes = 700;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t at = 0;
  const auto next = [&]() -> size_t { return at < size ? data[at++] : 0; };
  BlockFile file({.folder = std::filesystem::temp_directory_path().string(),
                  .block_bytes = kBytes,
                  .queue_depth = 2,
                  .io_uring = next() % 2 == 0});
  std::vector<std::byte> blocks(kBlocks * kBytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<std::byte>(offpath::Draw(1, i) & 255);
  }
  file.Write(0, {blocks.data(), blocks.size()});
  while (at < size) {
    const size_t kind = next();
    const auto offset = static_cast<off_t>((next() * 256 + next()) % (kBlocks * file.slot_bytes()));
    const auto byte = static_cast<uint8_t>(next());
    if (kind % 8 == 0) {
      if (ftruncate(file.descriptor(), offset) != 0) return 0;
    } else if (kind % 8 == 1) {
      const size_t block = byte % kBlocks;
      try {
        file.Write(block, {blocks.data() + block * kBytes, kBytes});
      } catch (const offpath::Error&) {
      }
    } else if (pwrite(file.descriptor(), &byte, 1, offset) < 0) {
      continue;  // O_DIRECT takes no single bytes
    }
  }
  alignas(kTierAlignment) static std::byte memory[(kBlocks + 2) * kTierAlignment];
  std::vector<BlockRead> reads;
  for (uint64_t b = 0; b < kBlocks + 2; ++b) {
    reads.push_back({.block = b, .into = memory + b * kTierAlignment, .tag = b});
  }
  file.Submit(reads);
  BlockReadDone done[3];
  for (size_t left = reads.size(); left > 0;) {
    const size_t count = file.Collect(done, offpath::Deadline::After(std::chrono::seconds(5)));
    if (count == 0) std::abort();
    for (size_t i = 0; i < count; ++i) {
      const uint64_t block = done[i].tag;
      const bool well = done[i].error.empty();
      if (block >= kBlocks ? well
                           : well && std::memcmp(memory + block * kTierAlignment,
                                                 blocks.data() + block * kBytes, kBytes) != 0) {
        std::abort();
      }
    }
    left -= count;
  }
  return 0;
}
