// A memory node in a process of its own, for tests that kill it: STORE HOST:PORT, until it is
// killed.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "offpath/graph/serve/memory_node.h"

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that fails leaves no process
  if (argc != 3) return 2;
  try {
    offpath::graph::MemoryNodeOptions options;
    options.listen = offpath::wire::ParseTcpAddress(argv[2]);
    offpath::graph::MemoryNode node(offpath::graph::Store::Open(argv[1]), options);
    node.Start();
    while (true) pause();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
