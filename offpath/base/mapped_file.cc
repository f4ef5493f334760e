#include "offpath/base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include "offpath/base/error.h"

namespace offpath {
namespace {

// One map as the signal handler sees it. `version` is odd while a slot is being changed, so that
// the handler, which must not lock, never takes the start of one map with the end of another.
struct Slot {
  std::atomic<uint32_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: free
  std::atomic<bool> faulted{false};
};

// Slots live in blocks that are linked and never freed, so the handler can walk them at any time.
struct SlotBlock {
  std::array<Slot, 128> slots;
  SlotBlock* next = nullptr;  // set before the block is published
};

std::atomic<SlotBlock*> g_blocks{nullptr};
std::mutex g_slots_mutex;  // guards taking and freeing slots, never held by the handler
struct sigaction g_previous_action;
uintptr_t g_page_bytes = 4096;

void SetSlot(Slot& slot, uintptr_t begin, uintptr_t end) {
  slot.version.fetch_add(1, std::memory_order_seq_cst);
  slot.begin.store(begin, std::memory_order_seq_cst);
  slot.end.store(end, std::memory_order_seq_cst);
  slot.faulted.store(false, std::memory_order_seq_cst);
  slot.version.fetch_add(1, std::memory_order_seq_cst);
}

Slot* TakeSlot(uintptr_t begin, uintptr_t end) {
  const std::scoped_lock lock(g_slots_mutex);
  for (SlotBlock* block = g_blocks.load(); block != nullptr; block = block->next) {
    for (Slot& slot : block->slots) {
      if (slot.end.load() != 0) continue;
      SetSlot(slot, begin, end);
      return &slot;
    }
  }
  auto* block = new SlotBlock;
  block->next = g_blocks.load();
  SetSlot(block->slots[0], begin, end);
  g_blocks.store(block);
  return block->slots.data();
}

void FreeSlot(Slot& slot) {
  const std::scoped_lock lock(g_slots_mutex);
  SetSlot(slot, 0, 0);
}

// Puts zeros in place of the map from the lost page on: everything behind it is lost too, and one
// piece keeps a map that is read at random from being split into more pieces than the kernel
// allows. Reads of it share the kernel's zero page, so it takes no memory.
bool ReplaceLostPages(uintptr_t address) noexcept {
  for (SlotBlock* block = g_blocks.load(); block != nullptr; block = block->next) {
    for (Slot& slot : block->slots) {
      const uint32_t version = slot.version.load();
      const uintptr_t begin = slot.begin.load();
      const uintptr_t end = slot.end.load();
      if (address < begin || address >= end) continue;
      if ((version & 1) != 0 || slot.version.load() != version) continue;
      const uintptr_t page = address & ~(g_page_bytes - 1);
      // The bare system call: the C library's, and what sanitizers put before it, are not made for
      // signal handlers.
      const long replaced = syscall(SYS_mmap, page, end - page, PROT_READ,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
      if (replaced == -1) return false;
      slot.faulted.store(true);
      return true;
    }
  }
  return false;
}

void HandleSigbus(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // A positive code comes from the kernel about an address; kill() and sigqueue() send others.
  const bool from_kernel = info->si_code > 0;
  const bool replaced = from_kernel && ReplaceLostPages(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved_errno;
  if (replaced) return;
  if ((g_previous_action.sa_flags & SA_SIGINFO) != 0) {
    g_previous_action.sa_sigaction(signal_number, info, context);
  } else if (g_previous_action.sa_handler != SIG_DFL && g_previous_action.sa_handler != SIG_IGN) {
    g_previous_action.sa_handler(signal_number);
  } else if (from_kernel || g_previous_action.sa_handler == SIG_DFL) {
    // With the default action back in place, returning runs into the same fault and ends the
    // process as it would have ended without us; a signal that was sent has to be sent again.
    signal(SIGBUS, SIG_DFL);
    if (!from_kernel) raise(SIGBUS);
  }
}

void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    g_page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = HandleSigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    // Read first, so that the handler never runs before the previous action is known.
    if (sigaction(SIGBUS, nullptr, &g_previous_action) != 0 ||
        sigaction(SIGBUS, &action, nullptr) != 0) {
      ThrowErrno(errno, "installing the SIGBUS handler");
    }
  });
}

}  // namespace

struct MappedFile::State {
  std::string path;
  int fd = -1;  // kept to see in CheckIntact() that the file has shrunk
  void* data = nullptr;
  size_t size = 0;
  Slot* slot = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (slot != nullptr) FreeSlot(*slot);
    if (data != nullptr) munmap(data, size);
    if (fd >= 0) close(fd);
  }
};

MappedFile::MappedFile() noexcept = default;
MappedFile::~MappedFile() = default;
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;

MappedFile::MappedFile(const std::string& path, AccessPattern pattern)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
  if (state_->fd < 0) ThrowErrno(errno, "opening " + path);
  struct stat status = {};
  if (fstat(state_->fd, &status) != 0) ThrowErrno(errno, "reading the size of " + path);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument, path + " is not a regular file");
  }
  if (status.st_size == 0) return;
  InstallHandler();
  const auto size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, state_->fd, 0);
  if (data == MAP_FAILED) ThrowErrno(errno, "mapping " + path);
  state_->data = data;
  state_->size = size;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t pages = (size + g_page_bytes - 1) / g_page_bytes;
  state_->slot = TakeSlot(begin, begin + pages * g_page_bytes);
  // Advice only: a kernel or file system that knows none of it still reads the right bytes.
  madvise(data, size, pattern == AccessPattern::kRandom ? MADV_RANDOM : MADV_SEQUENTIAL);
  if (pattern == AccessPattern::kRandom) madvise(data, size, MADV_HUGEPAGE);
}

std::span<const std::byte> MappedFile::bytes() const noexcept {
  if (state_ == nullptr) return {};
  return {static_cast<const std::byte*>(state_->data), state_->size};
}

const std::string& MappedFile::path() const noexcept {
  static const std::string kNoPath;
  return state_ == nullptr ? kNoPath : state_->path;
}

bool MappedFile::faulted() const noexcept {
  return state_ != nullptr && state_->slot != nullptr && state_->slot->faulted.load();
}

void MappedFile::CheckIntact() const {
  if (state_ == nullptr || state_->slot == nullptr) return;
  // Truncation inside the last page raises no signal: the kernel clears the rest of that page.
  struct stat status = {};
  const bool shrunk =
      fstat(state_->fd, &status) == 0 && static_cast<size_t>(status.st_size) < state_->size;
  if (faulted() || shrunk) {
    throw Error(ErrorCode::kCorruptData,
                state_->path +
                    " was truncated or became unreadable while it was mapped; restore the file "
                    "and open it again");
  }
}

}  // namespace offpath
