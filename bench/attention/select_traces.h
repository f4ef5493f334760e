// Keys and queries of contexts longer than a model has, drawn from a process that was fitted to
// real ones (fit_select_traces.py says what process, how it was fitted and how it is checked).
#pragma once

#include <cstddef>
#include <filesystem>
#include <random>
#include <vector>

namespace offpath::bench {

inline constexpr size_t kTraceDim = 64;
inline constexpr size_t kTraceGroup = 3;  // query heads of a KV head
inline constexpr size_t kTraceBlock = 16;

// Of one KV head.
struct TraceParameters {
  float persistence = 0;
  float spread = 0;
  std::vector<float> mean;           // [dim]
  std::vector<float> block;          // [dim, dim]
  std::vector<float> token;          // [dim, dim]
  std::vector<float> query;          // [group, dim]
  std::vector<float> query_leading;  // [group, dim, rank]
  std::vector<float> query_noise;    // [group, dim]
};

// Throws where the file is not what fit_select_traces.py writes.
std::vector<TraceParameters> ReadTraceParameters(const std::filesystem::path& path);

class Trace {
 public:
  Trace(const TraceParameters& parameters, uint64_t seed);

  // keys [kTraceBlock, dim] of the next block, rotated.
  void NextBlock(float* keys);
  // queries [group, dim] of a token at `position`, rotated.
  void NextQuery(size_t position, float* queries);

 private:
  void Rotate(float* row, size_t position) const;

  const TraceParameters& parameters_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  size_t blocks_ = 0;
  std::vector<float> state_;  // z: the leading parts', then the noise's
  std::vector<double> frequencies_;
};

}  // namespace offpath::bench
