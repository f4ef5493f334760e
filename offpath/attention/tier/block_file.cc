#include "offpath/attention/tier/block_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/base/write_at.h"

namespace offpath::attention {
namespace {

constexpr size_t kMostInFlight = 4096;
constexpr uint64_t kMostBlocks = uint64_t{1} << 40;

// The bytes at the first multiple of the tier's alignment in `buffer`.
std::byte* Aligned(Buffer<std::byte>& buffer, size_t bytes) {
  if (buffer.size() < bytes + kTierAlignment) buffer.resize(bytes + kTierAlignment);
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  return buffer.data() + (AlignToTier(address) - address);
}

int OpenUnnamed(const std::string& folder, int flags) {
  return open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
}

}  // namespace

BlockFile::BlockFile(const BlockFileOptions& options)
    : options_(options), slot_bytes_(AlignToTier(options.block_bytes)) {
  if (options_.block_bytes == 0 || options_.block_bytes > (size_t{1} << 30)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a block file of blocks of " + std::to_string(options_.block_bytes) + " bytes");
  }
  if (options_.queue_depth == 0 || options_.queue_depth > kMostInFlight) {
    throw Error(ErrorCode::kInvalidArgument,
                "queue_depth is " + std::to_string(options_.queue_depth) + ": it must be 1 to " +
                    std::to_string(kMostInFlight));
  }
  const auto warn = [&](const std::string& line) {
    if (options_.warn) options_.warn(line);
  };
  file_reads_.reserve(kReadsAtFirst);
  flights_.reserve(kReadsAtFirst);
  free_flights_.reserve(kReadsAtFirst);
  fd_ = OpenUnnamed(options_.folder, O_DIRECT);
  direct_ = fd_ >= 0;
  if (fd_ < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
    fd_ = OpenUnnamed(options_.folder, 0);
    if (fd_ >= 0) {
      warn(
          "no O_DIRECT in " + options_.folder +
          ": the block file goes through the page cache, which takes memory beyond the hot blocks");
    }
  }
  if (fd_ < 0) ThrowErrno(errno, "making a block file in " + options_.folder);
  try {
    if (options_.io_uring) {
      try {
        queue_ = MakeUringQueue(fd_, options_.queue_depth);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) throw;
        warn(std::string(error.message()) + "; " + std::to_string(options_.queue_depth) +
             " threads read instead");
      }
    }
    if (queue_ == nullptr) queue_ = MakeThreadQueue(fd_, options_.queue_depth);
  } catch (...) {
    close(fd_);
    throw;
  }
}

BlockFile::~BlockFile() {
  queue_.reset();
  close(fd_);
}

std::string BlockFile::description() const {
  return "file in " + options_.folder + (direct_ ? ", O_DIRECT, " : ", page cache, ") +
         queue_->description();
}

void BlockFile::Write(uint64_t first, std::span<const std::byte> blocks) {
  const size_t count = blocks.size() / options_.block_bytes;
  if (count == 0) return;
  if (first >= kMostBlocks || count > kMostBlocks - first) {
    throw Error(ErrorCode::kInvalidArgument, "block " + std::to_string(first) + " of a block file");
  }
  const size_t bytes = count * slot_bytes_;
  std::byte* staged = Aligned(staging_, bytes);
  if (checksums_.size() < first + count) {
    checksums_.resize(first + count, 0);
    written_.resize(first + count, 0);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto block = blocks.subspan(i * options_.block_bytes, options_.block_bytes);
    std::byte* at = staged + i * slot_bytes_;
    std::memcpy(at, block.data(), block.size());
    std::memset(at + block.size(), 0, slot_bytes_ - block.size());
    written_[first + i] = 0;  // until it is there
    checksums_[first + i] = Crc32c(block);
  }
  WriteAt(fd_, {staged, bytes}, first * slot_bytes_,
          "writing block " + std::to_string(first) + " to the block file in " + options_.folder);
  std::fill_n(written_.begin() + static_cast<std::ptrdiff_t>(first), count, uint8_t{1});
}

void BlockFile::Submit(std::span<const BlockRead> reads) {
  file_reads_.clear();
  for (const BlockRead& read : reads) {
    if (read.block >= written_.size() || written_[read.block] == 0) {
      refused_.push_back(read.tag);
      continue;
    }
    if (free_flights_.empty()) {
      free_flights_.push_back(flights_.size());
      flights_.emplace_back();
    }
    const size_t flight = free_flights_.back();
    free_flights_.pop_back();
    flights_[flight] = read;
    file_reads_.push_back({.offset = read.block * slot_bytes_,
                           .bytes = slot_bytes_,
                           .into = read.into,
                           .tag = flight});
  }
  queue_->Submit(file_reads_);
}

size_t BlockFile::Collect(std::span<BlockReadDone> done, Deadline deadline) {
  size_t filled = 0;
  for (; filled < done.size() && !refused_.empty(); ++filled) {
    done[filled] = {.tag = refused_.back(), .error = "it was never written"};
    refused_.pop_back();
  }
  if (filled > 0) return filled;
  file_done_.resize(done.size());
  const size_t count = queue_->Collect(file_done_, deadline);
  for (size_t i = 0; i < count; ++i) {
    const size_t flight = file_done_[i].tag;
    const BlockRead read = flights_[flight];
    done[i] = {.tag = read.tag, .error = ErrorOf(file_done_[i], read)};
    free_flights_.push_back(flight);
  }
  return count;
}

std::string BlockFile::ErrorOf(const FileReadDone& done, const BlockRead& read) const {
  if (done.error != 0) return std::strerror(done.error);
  if (done.bytes < slot_bytes_) {
    return "only " + std::to_string(done.bytes) + " of " + std::to_string(slot_bytes_) +
           " bytes were there: the file was cut";
  }
  if (Crc32c({read.into, options_.block_bytes}) != checksums_[read.block]) {
    return "its checksum differs from what was written: the disk or the file is damaged";
  }
  return {};
}

}  // namespace offpath::attention
