// Processor cores: lists of them, which ones this process may use, and pinning to them.
//
// Cores are the kernel's numbers (/proc/cpuinfo's "processor"): hardware threads where the machine
// has several a core. A list is sorted and without repetition. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace offpath {

using CoreList = std::vector<int>;

// "0,2-3" to {0, 2, 3}; throws kInvalidArgument naming the part that is wrong. Spaces around parts
// are allowed, a core twice is not an error, an empty list is.
CoreList ParseCoreList(std::string_view text);
// {0, 2, 3} to "0,2-3".
std::string FormatCoreList(const CoreList& cores);

// The cores that this thread may run on.
CoreList AvailableCores();
// The cores that the machine has online, usable by this process or not.
int CoresOnline();

// Throws kInvalidArgument, naming the core and those there are, where one is not available.
void CheckCoresAvailable(const CoreList& cores);

// Keeps the calling thread, and threads and children that it starts from now on, to `cores`.
void PinThread(const CoreList& cores);

// Pins every thread of this process, and undoes it at the end: threads that were there before get
// their old cores back, newer ones those of the thread that made this.
class ProcessPin {
 public:
  explicit ProcessPin(const CoreList& cores);
  ~ProcessPin();
  ProcessPin(const ProcessPin&) = delete;
  ProcessPin& operator=(const ProcessPin&) = delete;

 private:
  struct Saved {
    int thread_id;
    CoreList cores;
  };
  std::vector<Saved> saved_;
  CoreList default_cores_;
};

}  // namespace offpath
