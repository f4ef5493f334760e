// How long a team of workers takes for a step.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "bench/base/clock.h"
#include "offpath/attention/decode/team.h"

namespace offpath::bench {

// Of body(worker) on each of `threads` threads, from when all are there until all are done.
inline double TimeTeam(size_t threads, const std::function<void(const attention::Worker&)>& body) {
  attention::Team team;
  double begin = 0;
  const auto run = [&](size_t index) {
    const attention::Worker worker = {.index = index, .count = threads, .team = &team};
    worker.Meet();
    if (index == 0) begin = Now();
    body(worker);
    worker.Meet();
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  const double seconds = Now() - begin;
  for (std::thread& thread : others) thread.join();
  return seconds;
}

}  // namespace offpath::bench
