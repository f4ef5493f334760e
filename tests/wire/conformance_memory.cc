// What a channel allocates, counted where all of it passes: every operator new of the process
// (under a sanitizer, every malloc).
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "tests/wire/conformance.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define OFFPATH_SANITIZED 1
#include <sanitizer/allocator_interface.h>
#endif
#endif
#ifndef OFFPATH_SANITIZED
#define OFFPATH_SANITIZED 0
#endif

namespace {

std::atomic<size_t> allocations{0};

}  // namespace

#if OFFPATH_SANITIZED
// The sanitizers have operators of their own, and a hook in them.
namespace {

const bool kHooked = __sanitizer_install_malloc_and_free_hooks(
                         [](const volatile void* /*memory*/, size_t /*bytes*/) { ++allocations; },
                         [](const volatile void* /*memory*/) {}) != 0;

}  // namespace
#else
void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
#endif

namespace offpath::wire {

TEST_P(ChannelConformance, FramesInSteadyStateAllocateNothing) {
  auto [client, server] = Connect(Small());
  const auto exchange = [client = client.get(), server = server.get()] {
    SendBuffer buffer = client->AcquireSend(Soon());
    std::memset(buffer.payload().data(), 7, 1000);
    client->Send(std::move(buffer), {}, 1000, Soon());
    const ReceivedFrame frame = server->Receive(Soon());
    return frame.payload().size() == 1000;
  };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(exchange());
  const size_t before = allocations.load();
  EXPECT_NE(before, 0U) << "nothing is counted";
  bool whole = true;
  for (int i = 0; i < 200; ++i) whole &= exchange();
  EXPECT_EQ(allocations.load(), before);
  EXPECT_TRUE(whole);
}

}  // namespace offpath::wire
