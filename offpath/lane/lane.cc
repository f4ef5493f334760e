#include "offpath/lane/lane.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "offpath/base/error.h"
#include "offpath/lane/cpu_cgroup.h"

namespace offpath {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::nanoseconds ToDuration(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

std::chrono::nanoseconds ProcessorTimeOfProcess() {
  std::chrono::nanoseconds total{0};
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    total += ToDuration(usage.ru_utime) + ToDuration(usage.ru_stime);
  }
  return total;
}

CpuQuota MakeQuota(const LaneSpec& spec) {
  constexpr double kLeastUs = 1000;  // the kernel's, for a quota and for a period
  constexpr double kLongestPeriodUs = 1e6;
  constexpr double kMostPercent = 1e6;
  const auto period_us = static_cast<double>(spec.period.count());
  if (period_us < kLeastUs || period_us > kLongestPeriodUs) {
    throw Error(ErrorCode::kInvalidArgument, "a lane's period must be from 1 ms to 1 s");
  }
  const double share = spec.quota_percent / 100;
  // Written so that a NaN fails too.
  if (!(share * kLongestPeriodUs >= kLeastUs && spec.quota_percent <= kMostPercent)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a lane's quota is a percentage of one core, from 0.1 up (150 is one and a half "
                "cores), or 0 for none");
  }
  const double period = std::max(period_us, std::ceil(kLeastUs / share));
  return {.quota_us = static_cast<uint64_t>(std::llround(std::max(kLeastUs, share * period))),
          .period_us = static_cast<uint64_t>(period)};
}

}  // namespace

struct Lane::State {
  std::optional<ProcessPin> pin;
  std::unique_ptr<CpuCgroup> cgroup;
  Clock::time_point began = Clock::now();
  std::chrono::nanoseconds cpu_before{0};
};

Lane::Lane(const LaneSpec& spec, CgroupFs& fs) : state_(std::make_unique<State>()) {
  std::optional<CpuQuota> quota;
  if (spec.quota_percent != 0) quota = MakeQuota(spec);
  if (!spec.cores.empty()) state_->pin.emplace(spec.cores);
  report_.cores = AvailableCores();
  if (quota.has_value()) {
    std::string reason;
    state_->cgroup = CpuCgroup::Enter(fs, *quota, getpid(), reason);
    report_.quota_set = state_->cgroup != nullptr;
    if (report_.quota_set) {
      report_.quota_means = state_->cgroup->description();
    } else {
      report_.message = "no quota is set, the lane has its cores alone (" + reason +
                        "); run as root, or as a user to whom systemd delegates the cpu controller";
    }
  }
  state_->cpu_before = ProcessorTimeOfProcess();
  state_->began = Clock::now();
}

Lane::~Lane() = default;

LaneUsage Lane::Usage() const {
  LaneUsage usage;
  usage.wall = Clock::now() - state_->began;
  usage.cpu = ProcessorTimeOfProcess() - state_->cpu_before;
  if (state_->cgroup == nullptr) return usage;
  const auto counted = state_->cgroup->usage();
  if (!counted.has_value()) return usage;
  usage.cpu = std::chrono::nanoseconds(counted->cpu_ns);
  usage.throttled = std::chrono::nanoseconds(counted->throttled_ns);
  usage.periods = counted->periods;
  usage.throttled_periods = counted->throttled_periods;
  return usage;
}

std::string ProbeQuotaMeans(std::string& why_not, CgroupFs& fs) {
  // More than all cores can use, so that nothing is slowed down meanwhile.
  constexpr uint64_t kPeriodUs = 100'000;
  const CpuQuota quota{.quota_us = kPeriodUs * static_cast<uint64_t>(CoresOnline()),
                       .period_us = kPeriodUs};
  const auto group = CpuCgroup::Enter(fs, quota, getpid(), why_not);
  if (group == nullptr) return "";
  const std::string description = group->description();
  return description.substr(0, description.rfind('/'));
}

}  // namespace offpath
