#include "offpath/lane/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "offpath/base/error.h"

namespace offpath {
namespace {

constexpr int kMaxCores = 8192;  // of the largest kernels

// A cpu_set_t holds 1024 cores only.
struct CoreMask {
  std::array<cpu_set_t, kMaxCores / CPU_SETSIZE> sets = {};
  static constexpr size_t kBytes = sizeof(sets);

  bool Has(int core) const { return CPU_ISSET_S(core, kBytes, sets.data()); }
  void Add(int core) { CPU_SET_S(core, kBytes, sets.data()); }
};

CoreList CoresOfThread(int thread_id) {
  CoreMask mask;
  if (sched_getaffinity(thread_id, CoreMask::kBytes, mask.sets.data()) != 0) {
    ThrowErrno(errno, "asking for the cores of thread " + std::to_string(thread_id));
  }
  CoreList cores;
  for (int core = 0; core < kMaxCores; ++core) {
    if (mask.Has(core)) cores.push_back(core);
  }
  return cores;
}

// 0 or an errno.
int TryPin(int thread_id, const CoreList& cores) {
  CoreMask mask;
  for (const int core : cores) mask.Add(core);
  return sched_setaffinity(thread_id, CoreMask::kBytes, mask.sets.data()) == 0 ? 0 : errno;
}

void Pin(int thread_id, const CoreList& cores) {
  const int error = TryPin(thread_id, cores);
  // A thread that ended meanwhile needs no pinning.
  if (error != 0 && error != ESRCH) ThrowErrno(error, "pinning to cores " + FormatCoreList(cores));
}

std::vector<int> ThreadsOfProcess() {
  std::vector<int> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.push_back(std::stoi(entry.path().filename().string()));
  }
  return threads;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

int ParseCore(std::string_view text, std::string_view list) {
  text = Trim(text);
  int core = 0;
  const char* end = text.data() + text.size();
  const auto [parsed_to, error] = std::from_chars(text.data(), end, core);
  if (error != std::errc{} || parsed_to != end || core < 0 || core >= kMaxCores) {
    throw Error(ErrorCode::kInvalidArgument, "core list '" + std::string(list) + "': '" +
                                                 std::string(text) +
                                                 "' is not a core; write it like 0,2-3");
  }
  return core;
}

}  // namespace

CoreList ParseCoreList(std::string_view text) {
  std::bitset<kMaxCores> chosen;  // bounds the memory whatever the text repeats
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    const size_t dash = part.find('-');
    const int first = ParseCore(part.substr(0, dash), text);
    const int last =
        dash == std::string_view::npos ? first : ParseCore(part.substr(dash + 1), text);
    if (last < first) {
      throw Error(ErrorCode::kInvalidArgument, "core list '" + std::string(text) + "': '" +
                                                   std::string(Trim(part)) + "' runs backwards");
    }
    for (int core = first; core <= last; ++core) chosen.set(core);
    begin = end + 1;
  }
  CoreList cores;
  for (int core = 0; core < kMaxCores; ++core) {
    if (chosen.test(core)) cores.push_back(core);
  }
  return cores;
}

std::string FormatCoreList(const CoreList& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cores[i]);
    if (last != i) text += (last == i + 1 ? "," : "-") + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

CoreList AvailableCores() { return CoresOfThread(0); }

int CoresOnline() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

void CheckCoresAvailable(const CoreList& cores) {
  const CoreList available = AvailableCores();
  for (const int core : cores) {
    if (!std::binary_search(available.begin(), available.end(), core)) {
      throw Error(ErrorCode::kInvalidArgument, "core " + std::to_string(core) +
                                                   " is not available to this process; cores " +
                                                   FormatCoreList(available) + " are");
    }
  }
}

void PinThread(const CoreList& cores) {
  CheckCoresAvailable(cores);
  Pin(0, cores);
}

ProcessPin::ProcessPin(const CoreList& cores) : default_cores_(AvailableCores()) {
  CheckCoresAvailable(cores);
  for (const int thread_id : ThreadsOfProcess()) {
    CoreMask mask;
    if (sched_getaffinity(thread_id, CoreMask::kBytes, mask.sets.data()) != 0) continue;  // ended
    saved_.push_back({thread_id, CoresOfThread(thread_id)});
    Pin(thread_id, cores);
  }
}

ProcessPin::~ProcessPin() {
  try {
    for (const int thread_id : ThreadsOfProcess()) {
      const auto old = std::find_if(saved_.begin(), saved_.end(), [&](const Saved& saved) {
        return saved.thread_id == thread_id;
      });
      TryPin(thread_id, old == saved_.end() ? default_cores_ : old->cores);
    }
  } catch (const std::exception&) {
    // Without /proc the threads stay where they are, which harms nothing but speed.
  }
}

}  // namespace offpath
