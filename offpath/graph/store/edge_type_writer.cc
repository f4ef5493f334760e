#include "offpath/graph/store/edge_type_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr size_t kAppendPiece = size_t{1} << 18;

[[noreturn]] void Invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

}  // namespace

EdgeTypeWriter::EdgeTypeWriter(Place place, const NodeTypeWriter& src, const std::string& relation,
                               const NodeTypeWriter& dst, EdgeTypeOptions options, ThreadPool& pool)
    : place_(std::move(place)),
      options_(options),
      shape_(MakeEdgeShape(src.count(), dst.count())),
      name_("(" + src.name() + ", " + relation + ", " + dst.name() + ")") {
  entry_.src = src.name();
  entry_.relation = relation;
  entry_.dst = dst.name();
  sorter_ =
      EdgeSorter::Create({.shape = shape_,
                          .columns = {options.has_weights, options.has_times},
                          .keep_ids = options.order == EdgeOrder::kKeepIds,
                          .drop_self_loops = options.drop_self_loops && src.name() == dst.name(),
                          .drop_duplicates = options.drop_duplicates,
                          .spool_path = place_.folder + "/spool-" + std::to_string(place_.index),
                          .merge_memory_bytes = place_.merge_memory_bytes},
                         pool);
}

std::string EdgeTypeWriter::NameOf(size_t appended) const {
  return name_ + ": edge " + std::to_string(input_edges() + static_cast<int64_t>(appended));
}

std::string EdgeTypeWriter::FeaturesFile() const {
  return "edges-" + std::to_string(place_.index) + "-features.npy";
}

void EdgeTypeWriter::CheckColumns(size_t edges, size_t dst, size_t weights, size_t times) const {
  const auto check = [&](const char* what, size_t size, bool wanted) {
    if (size == (wanted ? edges : 0)) return;
    Invalid(name_ + ": " + std::to_string(size) + " " + what + " came with " +
            std::to_string(edges) + " edges" +
            (wanted ? "" : ", of a type that was added without them"));
  };
  check("destinations", dst, true);
  check("weights", weights, options_.has_weights);
  check("times", times, options_.has_times);
}

void EdgeTypeWriter::CheckEnds(std::span<const int64_t> src, std::span<const int64_t> dst) const {
  const auto num_src = static_cast<uint64_t>(shape_.num_src);
  const auto num_dst = static_cast<uint64_t>(shape_.num_dst);
  // Without branches, so that the loop is vectorised; which one it is matters only where one is
  // bad.
  bool bad = false;
  for (size_t i = 0; i < src.size(); ++i) {
    bad |= static_cast<uint64_t>(src[i]) >= num_src || static_cast<uint64_t>(dst[i]) >= num_dst;
  }
  for (size_t i = 0; bad && i < src.size(); ++i) {
    const bool bad_src = static_cast<uint64_t>(src[i]) >= num_src;
    if (!bad_src && static_cast<uint64_t>(dst[i]) < num_dst) continue;
    Invalid(NameOf(i) + " (" + std::to_string(src[i]) + " -> " + std::to_string(dst[i]) +
            ") has a " + (bad_src ? "source" : "destination") + " out of range: the type has " +
            std::to_string(bad_src ? num_src : num_dst) + " nodes");
  }
}

void EdgeTypeWriter::CheckWeights(std::span<const float> weights) const {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] >= 0) continue;
    Invalid(NameOf(i) + " has weight " + std::to_string(weights[i]) +
            "; weights are finite and not negative");
  }
}

void EdgeTypeWriter::Append(std::span<const int64_t> src, std::span<const int64_t> dst,
                            std::span<const float> weights, std::span<const int64_t> times,
                            const std::function<void()>& appended) {
  CheckColumns(src.size(), dst.size(), weights.size(), times.size());
  CheckEnds(src, dst);
  CheckWeights(weights);
  for (size_t begin = 0; begin < src.size(); begin += kAppendPiece) {
    const size_t count = std::min(kAppendPiece, src.size() - begin);
    sorter_->Append(src.subspan(begin, count), dst.subspan(begin, count),
                    weights.empty() ? weights : weights.subspan(begin, count),
                    times.empty() ? times : times.subspan(begin, count));
    appended();
  }
}

void EdgeTypeWriter::AppendFeatures(std::span<const float> rows, int64_t dim) {
  if (options_.order != EdgeOrder::kKeepIds) {
    Invalid(name_ + ": features are rows by the edge's place in the input, so its ids must be " +
            "kept (EdgeOrder::kKeepIds)");
  }
  features_.Append(place_.folder + "/" + FeaturesFile(), name_, rows, dim);
}

ManifestEdgeType EdgeTypeWriter::Finish(const std::function<void(uint64_t)>& passed) {
  const int64_t edges = input_edges();
  if (!features_.empty() && features_.rows() != edges) {
    Invalid("features of " + name_ + " have " + std::to_string(features_.rows()) + " rows where " +
            std::to_string(edges) + " edges came in");
  }
  EdgeOutput output({.folder = place_.folder,
                     .prefix = "edges-" + std::to_string(place_.index) + "-",
                     .shape = shape_,
                     .columns = {options_.has_weights, options_.has_times},
                     .input_edges = edges,
                     .keep_ids = options_.order == EdgeOrder::kKeepIds,
                     .drop_duplicates = options_.drop_duplicates});
  sorter_->Drain(output, passed);
  sorter_.reset();
  output.Finish(entry_);
  if (!features_.empty()) entry_.features = features_.Finish(FeaturesFile());
  return std::move(entry_);
}

}  // namespace offpath::graph
