// A file mapped read-only and shared by all processes through the page cache.
//
// A read past the end of a file that was truncated under the map would raise SIGBUS. The first
// MappedFile installs a handler that puts zeros in place of our map from the lost page on and marks
// that map as faulted; any other SIGBUS goes to the handler that was there before. So a hot loop
// reads zeros, which its range checks survive, and CheckIntact() at the batch's end turns the mark
// into an Error that names the file. A system call that is handed lost bytes, write(2) for one,
// fails with EFAULT instead.
//
// Opening is O(1) in the file's size. A map holds one descriptor and keeps its bytes when the file
// is unlinked or replaced by rename. Thread-safe after construction. Movable; the bytes stay where
// they are.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace offpath {

enum class AccessPattern { kRandom, kSequential };

class MappedFile {
 public:
  MappedFile() noexcept;
  // Throws kNotFound or the like, naming the path. An empty file maps to an empty span.
  explicit MappedFile(const std::string& path, AccessPattern pattern = AccessPattern::kRandom);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;

  std::span<const std::byte> bytes() const noexcept;
  const std::string& path() const noexcept;
  bool faulted() const noexcept;
  // Throws kCorruptData naming the file where a page of the map was lost or the file is now shorter
  // than its map. Costs one fstat(2).
  void CheckIntact() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath
