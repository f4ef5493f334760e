#include "offpath/graph/client/local_source.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/client/batch_maker.h"
#include "offpath/graph/protocol/open_plan.h"

namespace offpath::graph {
namespace {

constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxPrefetch = 65536;

// More of either is a mistake, such as a negative number on its way through an unsigned type.
LocalSourceOptions Checked(LocalSourceOptions options) {
  const auto check = [](const char* what, size_t value, size_t most) {
    if (value <= most) return;
    throw Error(ErrorCode::kInvalidArgument,
                std::to_string(value) + " " + what + ": at most " + std::to_string(most) + " work");
  };
  check("workers", options.threads, kMaxThreads);
  check("batches ahead a worker", options.prefetch, kMaxPrefetch);
  options.prefetch = std::max<size_t>(options.prefetch, 1);
  return options;
}

}  // namespace

struct LocalSource::State {
  // A batch of the window, from when a worker takes it until it is delivered.
  struct Slot {
    bool done = false;
    std::shared_ptr<Batch> batch;
    std::exception_ptr error;
  };

  State(std::shared_ptr<const Store> mapped, BatchPlan batch_plan, LocalSourceOptions options)
      : store(std::move(mapped)),
        plan(std::make_shared<const OpenPlan>(store, std::move(batch_plan), codec::RowFormat{})),
        window(std::max<size_t>(options.threads * options.prefetch, 1)),
        // Beyond the window: the batch in the caller's hands and one being let go.
        pool(window + options.threads + 2),
        slots(window) {
    for (size_t i = 0; i < std::max<size_t>(options.threads, 1); ++i) {
      makers.push_back(std::make_unique<BatchMaker>(store, plan));
    }
    try {
      for (size_t i = 0; i < options.threads; ++i) {
        workers.emplace_back([this, i] { Work(*makers[i]); });
      }
    } catch (const std::system_error& error) {
      StopWorkers();
      ThrowErrno(error.code().value(), "starting worker " + std::to_string(workers.size() + 1) +
                                           " of " + std::to_string(options.threads));
    }
  }

  ~State() { StopWorkers(); }

  void StopWorkers() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    room.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  // Threads do not live on in a forked child, and what they held locked stays locked there.
  bool InForkedChild() const { return process != getpid() && !workers.empty(); }
  void CheckProcess() const {
    if (!InForkedChild()) return;
    throw Error(ErrorCode::kUnsupported,
                "these batches are made by threads of process " + std::to_string(process) +
                    ", from which this one was forked: make their source after the fork");
  }

  bool MayStart() const { return to_start < end && to_start < to_deliver + window; }

  Slot Make(BatchMaker& maker, const BatchNumber& number) {
    Slot slot;
    slot.done = true;
    try {
      slot.batch = pool.Acquire();
      maker.Make(number, *slot.batch);
    } catch (...) {
      slot.batch = nullptr;
      slot.error = std::current_exception();
    }
    return slot;
  }

  void Work(BatchMaker& maker) {
    std::unique_lock lock(mutex);
    while (true) {
      room.wait(lock, [this] { return stopping || MayStart(); });
      if (stopping) return;
      const BatchNumber number{epoch, to_start++};
      const uint64_t begun = generation;
      lock.unlock();
      Slot made = Make(maker, number);
      lock.lock();
      if (begun != generation) continue;  // of an epoch that was left
      slots[number.batch % window] = std::move(made);
      if (number.batch == to_deliver) delivery.notify_one();
    }
  }

  const pid_t process = getpid();
  const std::shared_ptr<const Store> store;
  const std::shared_ptr<const OpenPlan> plan;
  const size_t window;
  BatchPool pool;
  std::vector<std::unique_ptr<BatchMaker>> makers;

  std::mutex mutex;
  std::condition_variable room;      // a batch may be started
  std::condition_variable delivery;  // the next one is done
  bool stopping = false;
  uint64_t generation = 0;  // of Begin()
  uint64_t epoch = 0;
  uint64_t to_start = 0, to_deliver = 0, end = 0;  // batch numbers
  std::vector<Slot> slots;                         // batch b is in slot b % window
  std::vector<std::thread> workers;
};

LocalSource::LocalSource(std::shared_ptr<const Store> store, BatchPlan plan,
                         LocalSourceOptions options)
    : state_(std::make_unique<State>(std::move(store), std::move(plan), Checked(options))) {}

LocalSource::~LocalSource() {
  if (state_->InForkedChild()) static_cast<void>(state_.release());
}

uint64_t LocalSource::seeds() const noexcept { return state_->plan->order().count(); }
uint64_t LocalSource::batches() const noexcept { return state_->plan->order().batches(); }

void LocalSource::Places(const BatchNumber& number, std::vector<int64_t>& places) const {
  state_->plan->order().Places(number, places);
}

void LocalSource::Begin(uint64_t epoch, uint64_t first) {
  state_->CheckProcess();
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->generation;
    state_->epoch = epoch;
    state_->to_start = state_->to_deliver = first;
    state_->end = batches();
    for (State::Slot& slot : state_->slots) slot = {};
  }
  state_->room.notify_all();
}

bool LocalSource::Ready(std::chrono::nanoseconds wait) {
  State& state = *state_;
  if (state.workers.empty()) return true;
  state.CheckProcess();
  std::unique_lock lock(state.mutex);
  return state.delivery.wait_for(lock, wait, [&state] {
    return state.to_deliver >= state.end || state.slots[state.to_deliver % state.window].done;
  });
}

std::shared_ptr<Batch> LocalSource::Next(Deadline deadline) {
  State& state = *state_;
  State::Slot slot;
  if (state.workers.empty()) {
    if (state.to_deliver >= state.end) return nullptr;
    slot = state.Make(*state.makers[0], {state.epoch, state.to_deliver++});
  } else {
    if (!Ready(deadline.remaining())) {
      throw Error(ErrorCode::kTimeout, "waited for batch " + std::to_string(state.to_deliver) +
                                           " of epoch " + std::to_string(state.epoch) +
                                           " to be sampled from " + state.store->folder());
    }
    {
      const std::lock_guard lock(state.mutex);
      if (state.to_deliver >= state.end) return nullptr;
      slot = std::exchange(state.slots[state.to_deliver++ % state.window], State::Slot{});
    }
    state.room.notify_one();
  }
  if (slot.error) std::rethrow_exception(slot.error);
  return std::move(slot.batch);
}

}  // namespace offpath::graph
