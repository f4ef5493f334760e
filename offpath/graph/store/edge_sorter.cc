#include "offpath/graph/store/edge_sorter.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/store/radix_sort.h"

namespace offpath::graph {
namespace {

// Trivially copyable values in anonymous pages: growing moves pages instead of copying, so that it
// never takes the sum of both sizes, and large pages spare the sort's scattered writes TLB misses.
template <typename T>
class PageArray {
 public:
  PageArray() = default;
  ~PageArray() { Free(); }
  PageArray(const PageArray&) = delete;
  PageArray& operator=(const PageArray&) = delete;

  T* data() noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  void Free() noexcept {
    if (data_ != nullptr) munmap(data_, capacity_ * sizeof(T));
    data_ = nullptr;
    size_ = capacity_ = 0;
  }
  // Grows by `count` values that are not initialised; returns the first.
  T* Extend(size_t count) {
    if (size_ + count > capacity_) Reserve(std::max(size_ + count, capacity_ + capacity_ / 2));
    size_ += count;
    return data_ + (size_ - count);
  }
  void Shrink(size_t size) noexcept { size_ = size; }

 private:
  void Reserve(size_t wanted) {
    constexpr size_t kPage = 4096;
    const size_t bytes = (wanted * sizeof(T) + kPage - 1) / kPage * kPage;
    void* moved = data_ == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                   : mremap(data_, capacity_ * sizeof(T), bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) ThrowErrno(errno, "taking memory to sort edges in");
    madvise(moved, bytes, MADV_HUGEPAGE);
    data_ = static_cast<T*>(moved);
    capacity_ = bytes / sizeof(T);
  }
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

template <typename R>
class SorterOf final : public EdgeSorter {
 public:
  SorterOf(EdgeSorterOptions options, ThreadPool& pool)
      : options_(std::move(options)),
        pool_(pool),
        spool_(options_.spool_path, options_.columns, options_.merge_memory_bytes) {}

  void Append(std::span<const int64_t> src, std::span<const int64_t> dst,
              std::span<const float> weights, std::span<const int64_t> times) override {
    const int src_bits = options_.shape.src_bits;
    R* out = records_.Extend(src.size());
    size_t kept = 0;
    for (size_t i = 0; i < src.size(); ++i) {
      R record;
      record.key = (static_cast<uint64_t>(dst[i]) << src_bits) | static_cast<uint64_t>(src[i]);
      if constexpr (kHasId<R>) record.id = input_edges_ + i;
      out[kept] = record;
      kept += options_.drop_self_loops && src[i] == dst[i] ? 0 : 1;
    }
    records_.Shrink(records_.size() - (src.size() - kept));
    // Columns keep the place of dropped edges, so that an id leads to its values.
    std::copy(weights.begin(), weights.end(), weights_.Extend(weights.size()));
    std::copy(times.begin(), times.end(), times_.Extend(times.size()));
    input_edges_ += src.size();
  }

  uint64_t buffered_bytes() const noexcept override {
    return records_.size() * sizeof(R) + weights_.size() * sizeof(float) +
           times_.size() * sizeof(int64_t);
  }
  int64_t input_edges() const noexcept override { return static_cast<int64_t>(input_edges_); }

  void Spill() override {
    if (records_.size() != 0) {
      spool_.BeginRun();
      SortBuffered([&](const EdgeBatch<R>& batch) { spool_.Append(batch); });
      spool_.EndRun();
    }
    records_.Free();
    weights_.Free();
    times_.Free();
    first_id_ = input_edges_;
  }

  void Drain(EdgeOutput& output, const std::function<void(uint64_t)>& passed) override {
    const auto write = [&](const EdgeBatch<R>& batch) {
      output.Write(batch);
      passed(batch.count);
    };
    if (spool_.empty()) {
      SortBuffered(write);
      return;
    }
    Spill();
    spool_.Merge(write);
  }

 private:
  template <typename Emit>
  void SortBuffered(const Emit& emit) {
    constexpr size_t kPiece = size_t{1} << 18;
    PageArray<R> sorted;
    R* out = sorted.Extend(records_.size());
    RadixSort<R>::Run(records_.data(), out, records_.size(), options_.shape.key_bits, pool_);
    std::vector<float> weights;
    std::vector<int64_t> times;
    for (size_t begin = 0; begin < sorted.size(); begin += kPiece) {
      const size_t count = std::min(kPiece, sorted.size() - begin);
      const R* piece = out + begin;
      if constexpr (kHasId<R>) {
        if (options_.columns.weights) Gather(piece, count, weights_, weights);
        if (options_.columns.times) Gather(piece, count, times_, times);
      }
      emit(EdgeBatch<R>{piece, count, weights.data(), times.data()});
    }
  }

  template <typename T>
  void Gather(const R* records, size_t count, PageArray<T>& from, std::vector<T>& to) const {
    to.resize(count);
    for (size_t i = 0; i < count; ++i) to[i] = from.data()[records[i].id - first_id_];
  }

  EdgeSorterOptions options_;
  ThreadPool& pool_;
  EdgeSpool<R> spool_;
  PageArray<R> records_;
  PageArray<float> weights_;
  PageArray<int64_t> times_;
  uint64_t input_edges_ = 0;
  uint64_t first_id_ = 0;  // of the buffer
};

}  // namespace

std::unique_ptr<EdgeSorter> EdgeSorter::Create(EdgeSorterOptions options, ThreadPool& pool) {
  if (options.keep_ids || options.columns.weights || options.columns.times) {
    return std::make_unique<SorterOf<KeyIdRecord>>(std::move(options), pool);
  }
  return std::make_unique<SorterOf<KeyRecord>>(std::move(options), pool);
}

}  // namespace offpath::graph
