// Runs a check on every SIMD target that this machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/targets.h"

namespace offpath {

template <class Check>
void ForEveryTarget(const Check& check) {
  int64_t rest = hwy::SupportedTargets();
  ASSERT_NE(rest, 0);
  while (rest != 0) {
    const int64_t target = rest & -rest;
    rest &= rest - 1;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace offpath
