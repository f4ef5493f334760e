// bench_codec [--json]: row codecs against the memory bandwidth of the same
// run, one thread.
//
// Each case runs interleaved with its limit (bandwidth_limit.h: the fastest of plain and
// non-temporal stores, a row and 16 rows at a time) over buffers far beyond the last-level cache,
// an odd number of times; the median of the paired fractions and the spread (of the middle half)
// are printed. Results are checked before anything is timed. GB/s count bytes read and written.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/quantile.h"
#include "bench/codec/bandwidth_limit.h"
#include "offpath/base/random.h"
#include "offpath/codec/gather.h"
#include "offpath/codec/packed_ints.h"
#include "offpath/codec/rows.h"

namespace offpath::bench {
namespace {

using codec::RowFormat;
using codec::RowType;

constexpr size_t kDim = 128;
constexpr size_t kRows = size_t{1} << 18;       // sequential cases: 128 MiB of floats
constexpr size_t kTableRows = size_t{1} << 20;  // gathers: 512 MiB
constexpr size_t kBatchRows = 56000;            // of a batch of the sampling benchmark
constexpr int kSamples = 15;

uint64_t g_sink = 0;

// Anonymous pages of 4 KiB, touched.
template <typename T>
class PageBuffer {
 public:
  explicit PageBuffer(size_t count) : bytes_(count * sizeof(T)) {
    void* map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
      std::perror("bench_codec: mmap");
      std::exit(1);
    }
    madvise(map, bytes_, MADV_NOHUGEPAGE);
    std::memset(map, 0, bytes_);
    data_ = static_cast<T*>(map);
  }
  ~PageBuffer() { munmap(data_, bytes_); }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  T* data() { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

// Processor time of this thread: the same as time on the clock where the thread has its core to
// itself, and still comparable where it has not.
double Seconds(const std::function<void()>& body) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  const double start = now();
  body();
  return now() - start;
}

std::string Machine() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

struct Case {
  std::string name;
  double bytes = 0;  // moved by one run
  std::function<void()> ours = {};
  std::vector<std::function<void()>> others = {};  // the fastest counts
  std::string peer_name = {};                      // empty: the others are the physical limit
};

void Run(const Case& c, bool json, const std::string& machine) {
  const bool is_peer = !c.peer_name.empty();
  c.ours();
  for (const auto& other : c.others) other();
  std::vector<double> ours;
  std::vector<double> rates;
  std::vector<double> fractions;
  for (int i = 0; i < kSamples; ++i) {
    const double mine = Seconds(c.ours);
    double best = HUGE_VAL;
    for (const auto& run : c.others) best = std::min(best, Seconds(run));
    ours.push_back(c.bytes / mine / 1e9);
    if (c.others.empty()) continue;
    rates.push_back(c.bytes / best / 1e9);
    fractions.push_back(best / mine);
  }
  const double rate = Quantile(ours, 0.5);
  const double spread = (Quantile(ours, 0.75) - Quantile(ours, 0.25)) / rate;
  if (!json) {
    std::printf("%-28s %7.2f GB/s  spread %4.0f%%", c.name.c_str(), rate, spread * 100);
    if (!fractions.empty()) {
      std::printf("  %s %7.2f GB/s  %s %5.3f", is_peer ? c.peer_name.c_str() : "limit",
                  Quantile(rates, 0.5), is_peer ? "ratio" : "fraction", Quantile(fractions, 0.5));
    }
    std::printf("\n");
  } else {
    std::printf(R"({"bench":"codec","case":"%s","ours":%.3f,"unit":"GB/s",)", c.name.c_str(), rate);
    if (!fractions.empty() && is_peer) {
      std::printf(R"("peer":%.3f,"peer_name":"%s","ratio":%.3f,)", rate / Quantile(fractions, 0.5),
                  c.peer_name.c_str(), Quantile(fractions, 0.5));
    } else if (!fractions.empty()) {
      std::printf(R"("limit":%.3f,"limit_fraction":%.3f,)", Quantile(rates, 0.5),
                  Quantile(fractions, 0.5));
    }
    std::printf(R"("spread":%.3f,"samples":%d,"threads":1,"machine":"%s"})", spread, kSamples,
                machine.c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

// Decoded values lie within a step of what was encoded.
void CheckRoundTrip(const RowFormat& format, const float* x, const float* decoded) {
  for (size_t i = 0; i < 1000 * kDim; ++i) {
    const float step = format.type == RowType::kF16    ? 0x1.0p-10F
                       : format.type == RowType::kBF16 ? 0x1.0p-7F
                       : format.type == RowType::kI8   ? 1.0F / 127
                       : format.type == RowType::kI4   ? 1.0F / 7
                                                       : 1.0F;
    if (std::fabs(x[i] - decoded[i]) > step) {
      std::fprintf(stderr, "bench_codec: %s decodes %g to %g\n",
                   std::string(RowTypeName(format.type)).c_str(), x[i], decoded[i]);
      std::exit(1);
    }
  }
}

class Suite {
 public:
  Suite(bool json, std::string machine)
      : json_(json),
        machine_(std::move(machine)),
        table_(kTableRows * kDim),
        floats_(kRows * kDim),
        bytes_(kRows * kDim * sizeof(float)) {
    for (size_t i = 0; i < kTableRows * kDim; ++i) {
      table_.data()[i] = static_cast<float>(static_cast<int32_t>(Mix64(i))) * 0x1.0p-31F;
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      ids_[i] = static_cast<int64_t>(Below(Draw(1, i), kTableRows));
    }
  }

  void Sequential(RowType type, codec::Rounding rounding) {
    const RowFormat format = {.type = type, .rounding = rounding};
    const size_t row_bytes = EncodedRowBytes(format, kDim);
    const codec::EncodeInput in = {
        .table = table_.data(), .stride = kDim, .dim = kDim, .rows = kRows};
    const auto encode = [&] { g_sink += EncodeRows(format, in, bytes_.data()); };
    const auto decode = [&] {
      DecodeRows(format, bytes_.data(), kRows, kDim, floats_.data(), kDim);
    };
    encode();
    decode();
    CheckRoundTrip(format, table_.data(), floats_.data());
    const bool stochastic = rounding == codec::Rounding::kStochastic;
    const std::string name = std::string(RowTypeName(type)) + (stochastic ? " stochastic" : "");
    const auto moved = static_cast<double>(kRows * (kDim * sizeof(float) + row_bytes));
    // The limit's stores go to the buffer that ours goes to; it is encoded again below.
    Run({"encode " + name, moved, encode,
         Movers(table_.data(), kDim * 4, bytes_.data(), row_bytes)},
        json_, machine_);
    if (stochastic) return;
    encode();
    Run({"decode " + name, moved, decode,
         Movers(bytes_.data(), row_bytes, floats_.data(), kDim * 4)},
        json_, machine_);
  }

  // A batch of rows by random id into a recycled buffer; i8 against the plain gather of f32.
  void Gathers() {
    const size_t row = kDim * sizeof(float);
    const auto plain = [&] {
      for (size_t i = 0; i < kBatchRows; ++i) {
        std::memcpy(floats_.data() + i * kDim, table_.data() + static_cast<size_t>(ids_[i]) * kDim,
                    row);
      }
    };
    const auto gather = [&] {
      codec::GatherRows(table_.data(), kDim, kDim, ids_.data(), kBatchRows, floats_.data());
    };
    gather();
    for (size_t i = 0; i < kBatchRows; ++i) {
      const float* gathered = floats_.data() + i * kDim;
      if (!std::equal(gathered, gathered + kDim,
                      table_.data() + static_cast<size_t>(ids_[i]) * kDim)) {
        std::fprintf(stderr, "bench_codec: gathered row %zu is wrong\n", i);
        std::exit(1);
      }
    }
    const auto bytes = static_cast<double>(kBatchRows * row * 2);
    Run({"gather f32", bytes, gather, {plain}, "memcpy a row"}, json_, machine_);
    for (const RowType type : {RowType::kF16, RowType::kI8, RowType::kI4}) {
      const RowFormat format = {.type = type};
      const codec::EncodeInput in = {.table = table_.data(),
                                     .stride = kDim,
                                     .dim = kDim,
                                     .ids = ids_.data(),
                                     .rows = kBatchRows};
      // Counted in the floats read, so that the ratio is that of times.
      Run({"gather+encode " + std::string(RowTypeName(type)),
           static_cast<double>(kBatchRows * row),
           [&] { g_sink += EncodeRows(format, in, bytes_.data()); },
           {gather},
           "gather f32"},
          json_, machine_);
    }
  }

  void PackedIds() {
    for (const unsigned bits : {1U, 5U, 7U, 20U, 33U}) {
      const size_t count = 400000;
      std::vector<int64_t> ids(count);
      for (size_t i = 0; i < count; ++i) {
        ids[i] = static_cast<int64_t>(Draw(2, i) & ((uint64_t{1} << bits) - 1));
      }
      std::vector<std::byte> packed(codec::PackedBytes(count, bits));
      std::vector<int64_t> unpacked(count);
      const auto pack = [&] { codec::PackBits(ids.data(), count, bits, packed.data()); };
      const auto unpack = [&] { codec::UnpackBits(packed.data(), count, bits, unpacked.data()); };
      pack();
      unpack();
      if (ids != unpacked) {
        std::fprintf(stderr, "bench_codec: ids of %u bits do not come back\n", bits);
        std::exit(1);
      }
      const std::string name = std::to_string(bits) + " bits";
      Run({"pack ids " + name, count * 8.0, pack, {}}, json_, machine_);
      Run({"unpack ids " + name, count * 8.0, unpack, {}}, json_, machine_);
    }
  }

 private:
  // Every way to move as many bytes for each row of a sequential case.
  static std::vector<std::function<void()>> Movers(const void* in, size_t read, void* out,
                                                   size_t write) {
    std::vector<std::function<void()>> ways;
    // Past the caches at the start, so that none but plain stores runs after plain stores, whose
    // lines the next run has to write back; and once more at the end, before ours.
    for (const bool past_caches : {true, false, true}) {
      for (const size_t rows : {size_t{1}, size_t{16}}) {
        ways.emplace_back([=] {
          g_sink +=
              MoveBytes(static_cast<const std::byte*>(in), rows * read,
                        static_cast<std::byte*>(out), rows * write, kRows / rows, past_caches);
        });
      }
    }
    return ways;
  }

  bool json_;
  std::string machine_;
  PageBuffer<float> table_;
  PageBuffer<float> floats_;
  PageBuffer<std::byte> bytes_;
  std::vector<int64_t> ids_ = std::vector<int64_t>(kBatchRows);
};

int Main(int argc, char** argv) {
  const bool json = argc == 2 && std::string_view(argv[1]) == "--json";
  if (argc > 2 || (argc == 2 && !json)) {
    std::fprintf(stderr, "usage: bench_codec [--json]\n");
    return 2;
  }
  std::fprintf(stderr, "bench_codec: rows of %zu floats, %d samples a case\n", kDim, kSamples);
  Suite suite(json, Machine());
  for (const RowType type :
       {RowType::kF16, RowType::kBF16, RowType::kI8, RowType::kI4, RowType::kI2}) {
    suite.Sequential(type, codec::Rounding::kNearestEven);
  }
  suite.Sequential(RowType::kI8, codec::Rounding::kStochastic);
  suite.Gathers();
  suite.PackedIds();
  std::fprintf(stderr, "bench_codec: done (%llu)\n", static_cast<unsigned long long>(g_sink % 10));
  return 0;
}

}  // namespace
}  // namespace offpath::bench

int main(int argc, char** argv) { return offpath::bench::Main(argc, argv); }
