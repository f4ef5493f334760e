#include "offpath/graph/store/edge_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/write_at.h"

namespace offpath::graph {
namespace {

constexpr size_t kMostFanIn = 64;
constexpr uint64_t kLeastBlockRecords = 64;
constexpr uint64_t kMostBlockRecords = uint64_t{1} << 18;

}  // namespace

ScratchFile::ScratchFile(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) ThrowErrno(errno, "creating " + path_);
  unlink(path.c_str());
}

ScratchFile::~ScratchFile() { close(fd_); }

void ScratchFile::Append(std::span<const std::byte> bytes) {
  WriteAt(fd_, bytes, size_, "spooling edges to " + path_);
  size_ += bytes.size();
}

void ScratchFile::Read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ThrowErrno(errno, "reading spooled edges from " + path_);
    if (got == 0) throw Error(ErrorCode::kInternal, path_ + " is shorter than what was spooled");
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

// Where the merge stands in one run: a block is in memory.
template <typename R>
class EdgeSpool<R>::Cursor {
 public:
  Cursor(const ScratchFile& file, const Run& run, EdgeColumns columns)
      : file_(file), run_(run), columns_(columns) {
    Load();
  }

  bool done() const noexcept { return at_ == records_.size(); }
  const R& record() const noexcept { return records_[at_]; }
  float weight() const noexcept { return weights_[at_]; }
  int64_t time() const noexcept { return times_[at_]; }
  void Next() {
    if (++at_ == records_.size()) Load();
  }

 private:
  void Load() {
    at_ = 0;
    if (next_block_ == run_.size()) {
      records_.clear();
      return;
    }
    const Block block = run_[next_block_++];
    uint64_t offset = block.offset;
    const auto load = [&]<typename T>(std::vector<T>& column) {
      column.resize(static_cast<size_t>(block.count));
      file_.Read(offset, std::as_writable_bytes(std::span(column)));
      offset += column.size() * sizeof(T);
    };
    load(records_);
    if (columns_.weights) load(weights_);
    if (columns_.times) load(times_);
  }

  const ScratchFile& file_;
  const Run& run_;
  EdgeColumns columns_;
  size_t next_block_ = 0;
  size_t at_ = 0;
  std::vector<R> records_;
  std::vector<float> weights_;
  std::vector<int64_t> times_;
};

template <typename R>
EdgeSpool<R>::EdgeSpool(std::string path, EdgeColumns columns, uint64_t memory_bytes)
    : path_(std::move(path)),
      columns_(columns),
      memory_bytes_(memory_bytes),
      record_bytes_(sizeof(R) + (columns.weights ? 4 : 0) + (columns.times ? 8 : 0)) {}

template <typename R>
EdgeSpool<R>::~EdgeSpool() = default;

template <typename R>
size_t EdgeSpool<R>::FanIn() const noexcept {
  // One more block for the output.
  const uint64_t blocks = memory_bytes_ / (BlockRecords() * record_bytes_);
  return static_cast<size_t>(std::clamp<uint64_t>(blocks, 3, kMostFanIn + 1)) - 1;
}

template <typename R>
uint64_t EdgeSpool<R>::BlockRecords() const noexcept {
  return std::clamp(memory_bytes_ / (kMostFanIn + 1) / record_bytes_, kLeastBlockRecords,
                    kMostBlockRecords);
}

template <typename R>
void EdgeSpool<R>::BeginRun() {
  if (file_ == nullptr) file_ = std::make_unique<ScratchFile>(path_);
  runs_.emplace_back();
}

template <typename R>
void EdgeSpool<R>::EndRun() {
  if (runs_.back().empty()) runs_.pop_back();
}

template <typename R>
void EdgeSpool<R>::Append(const EdgeBatch<R>& batch) {
  const auto most = static_cast<size_t>(BlockRecords());
  for (size_t begin = 0; begin < batch.count; begin += most) {
    const size_t count = std::min(most, batch.count - begin);
    runs_.back().push_back({file_->size(), count});
    file_->Append(std::as_bytes(std::span(batch.records + begin, count)));
    if (columns_.weights) file_->Append(std::as_bytes(std::span(batch.weights + begin, count)));
    if (columns_.times) file_->Append(std::as_bytes(std::span(batch.times + begin, count)));
  }
}

template <typename R>
void EdgeSpool<R>::Merge(const std::function<void(const EdgeBatch<R>&)>& emit) {
  const size_t fan_in = FanIn();
  while (runs_.size() > fan_in) {
    const std::vector<Run> runs = std::exchange(runs_, {});
    const std::unique_ptr<ScratchFile> file = std::exchange(file_, nullptr);
    for (size_t begin = 0; begin < runs.size(); begin += fan_in) {
      const size_t count = std::min(fan_in, runs.size() - begin);
      BeginRun();
      MergeRuns(*file, std::span(runs).subspan(begin, count),
                [&](const EdgeBatch<R>& batch) { Append(batch); });
      EndRun();
    }
  }
  if (!runs_.empty()) MergeRuns(*file_, runs_, emit);
  runs_.clear();
  file_.reset();
}

template <typename R>
void EdgeSpool<R>::MergeRuns(const ScratchFile& file, std::span<const Run> runs,
                             const std::function<void(const EdgeBatch<R>&)>& emit) const {
  std::vector<std::unique_ptr<Cursor>> cursors;
  for (const Run& run : runs) cursors.push_back(std::make_unique<Cursor>(file, run, columns_));

  // A tournament tree: node n keeps the loser of its two subtrees, so that replacing the winner
  // plays one game a level. Leaf i stands at i + size; those beyond the runs always lose.
  const size_t size = std::bit_ceil(cursors.size());
  const auto wins = [&](size_t a, size_t b) {
    const bool a_open = a < cursors.size() && !cursors[a]->done();
    const bool b_open = b < cursors.size() && !cursors[b]->done();
    if (!a_open || !b_open) return a_open;
    const uint64_t a_key = cursors[a]->record().key;
    const uint64_t b_key = cursors[b]->record().key;
    return a_key < b_key || (a_key == b_key && a < b);
  };
  std::vector<size_t> losers(size, 0);
  std::vector<size_t> winners(2 * size);
  for (size_t i = 0; i < size; ++i) winners[size + i] = i;
  for (size_t n = size - 1; n > 0; --n) {
    const size_t a = winners[2 * n];
    const size_t b = winners[2 * n + 1];
    const bool a_wins = wins(a, b);
    winners[n] = a_wins ? a : b;
    losers[n] = a_wins ? b : a;
  }
  size_t winner = size == 1 ? 0 : winners[1];

  std::vector<R> records;
  std::vector<float> weights;
  std::vector<int64_t> times;
  const auto most = static_cast<size_t>(BlockRecords());
  const auto flush = [&] {
    emit({records.data(), records.size(), weights.data(), times.data()});
    records.clear();
    weights.clear();
    times.clear();
  };
  while (!cursors[winner]->done()) {
    Cursor& cursor = *cursors[winner];
    records.push_back(cursor.record());
    if (columns_.weights) weights.push_back(cursor.weight());
    if (columns_.times) times.push_back(cursor.time());
    cursor.Next();
    for (size_t n = (winner + size) / 2; n > 0; n /= 2) {
      if (wins(losers[n], winner)) std::swap(losers[n], winner);
    }
    if (records.size() == most) flush();
  }
  if (!records.empty()) flush();
}

template class EdgeSpool<KeyRecord>;
template class EdgeSpool<KeyIdRecord>;

}  // namespace offpath::graph
