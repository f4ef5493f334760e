// Measures a budget table on this machine: selection and speculation of a model's shape, at several
// lengths of the context.
//
// Selection is that of a decoder's serial steps over a cache of random keys, by a team of threads,
// layer after layer so that summaries come from where a model's do. Speculation is measured by
// itself: attention to blocks at random places of the same cache, or reads of as many from a file.
// Windows are lower quartiles of their times, and what must fit in them upper ones.
//
// Not thread-safe: it measures, so that nothing else should run meanwhile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "offpath/attention/profile/budget_table.h"
#include "offpath/base/progress.h"

namespace offpath::attention {

struct ProfileOptions {
  ProfileShape shape;
  std::vector<size_t> contexts;  // tokens, ascending
  std::vector<size_t> blocks;    // to speculate on, a KV head, ascending
  // For the cache: as many layers are measured as fit at the longest context.
  size_t memory_bytes = size_t{2} << 30;
  // With a tier in a file: where it is made, and the part of a selection that is not among the hot
  // blocks: with as many hot as selected a quarter at 32K and 0.3 at 128K, by Quest on the traces
  // of bench attention-prr.
  std::string folder;
  double cold_share = 0.3;
  size_t queue_depth = 64;
  size_t steps = 33;  // of each context
};

// Layers that ProfileBudgets() measures: all, or as many as memory holds. Throws
// kResourceExhausted, naming what one takes, where memory does not hold one.
size_t MeasuredLayers(const ProfileOptions& options);

// Throws kInvalidArgument naming the option that is out of range, and the Error of the file system.
BudgetTable ProfileBudgets(const ProfileOptions& options, const Progress& progress);

}  // namespace offpath::attention
