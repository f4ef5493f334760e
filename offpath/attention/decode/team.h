// Workers that run a step together: each calls the same function with its own index.
//
// A step has phases; between two of them all workers meet. They spin, since a phase takes
// microseconds, and yield the processor after a while, so that more workers than cores still end.
//
// Thread-safe. A team is used by one step at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace offpath::attention {

class Team {
 public:
  // Returns when `workers` workers have called it since the last such return.
  void Meet(size_t workers) noexcept {
    if (workers <= 1) return;
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.fetch_add(1, std::memory_order_release);
      return;
    }
    for (size_t spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins < kSpins) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr size_t kSpins = 2000;

  static void Pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  alignas(64) std::atomic<size_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
};

// The caller as one of a team.
struct Worker {
  size_t index = 0;
  size_t count = 1;
  Team* team = nullptr;  // may be null where count is 1

  void Meet() const noexcept {
    if (team != nullptr) team->Meet(count);
  }
};

// Numbers that workers take one after the other: the tasks of a phase. The last phase's are reset
// while no worker is in it, between two meetings.
class TaskCounter {
 public:
  size_t Take() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  void Reset() noexcept { next_.store(0, std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<size_t> next_{0};
};

}  // namespace offpath::attention
