// The main() of a benchmark.
#pragma once

#include <cstdio>
#include <exception>

namespace offpath::bench {

// Runs it; an exception ends the program `name` with a message and code 1.
inline int RunMain(const char* name, int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace offpath::bench
