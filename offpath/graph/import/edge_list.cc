#include "offpath/graph/import/edge_list.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/import/line_reader.h"
#include "offpath/graph/import/node_ids.h"
#include "offpath/graph/store/edge_spool.h"

namespace offpath::graph {
namespace {

constexpr size_t kPiece = size_t{1} << 18;  // edges
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Edges as they were read: in memory, or once they are many in a scratch file.
struct EdgePiece {
  std::vector<int64_t> src, dst, times;
  std::vector<float> weights;

  void clear() {
    src.clear();
    dst.clear();
    times.clear();
    weights.clear();
  }
};

class EdgeBuffer {
 public:
  EdgeBuffer(std::string scratch_path, uint64_t memory_bytes)
      : scratch_path_(std::move(scratch_path)), memory_bytes_(memory_bytes) {}

  void Add(const EdgePiece& piece) {
    if (piece.src.empty()) return;
    const uint64_t bytes = BytesOf(piece);
    if (scratch_ == nullptr && kept_bytes_ + bytes <= memory_bytes_) {
      kept_bytes_ += bytes;
      kept_.push_back(piece);
      return;
    }
    if (scratch_ == nullptr) scratch_ = std::make_unique<ScratchFile>(scratch_path_);
    spooled_.push_back(
        {scratch_->size(), piece.src.size(), !piece.weights.empty(), !piece.times.empty()});
    scratch_->Append(std::as_bytes(std::span(piece.src)));
    scratch_->Append(std::as_bytes(std::span(piece.dst)));
    scratch_->Append(std::as_bytes(std::span(piece.weights)));
    scratch_->Append(std::as_bytes(std::span(piece.times)));
  }

  // Gives the pieces back, in order, and forgets them.
  template <typename Visit>
  void Drain(const Visit& visit) {
    for (EdgePiece& piece : kept_) {
      visit(piece);
      piece = {};
    }
    EdgePiece piece;
    for (const Spooled& at : spooled_) {
      uint64_t offset = at.offset;
      const auto read = [&]<typename T>(std::vector<T>& column, bool has) {
        column.resize(has ? at.edges : 0);
        scratch_->Read(offset, std::as_writable_bytes(std::span(column)));
        offset += column.size() * sizeof(T);
      };
      read(piece.src, true);
      read(piece.dst, true);
      read(piece.weights, at.weights);
      read(piece.times, at.times);
      visit(piece);
    }
  }

 private:
  struct Spooled {
    uint64_t offset;
    size_t edges;
    bool weights, times;
  };
  static uint64_t BytesOf(const EdgePiece& piece) {
    return 8 * (piece.src.size() + piece.dst.size() + piece.times.size()) +
           4 * piece.weights.size();
  }

  std::string scratch_path_;
  uint64_t memory_bytes_;
  uint64_t kept_bytes_ = 0;
  std::vector<EdgePiece> kept_;
  std::unique_ptr<ScratchFile> scratch_;
  std::vector<Spooled> spooled_;
};

class EdgeListImport {
 public:
  EdgeListImport(const std::string& path, const EdgeListOptions& options, std::string scratch_path,
                 uint64_t memory_bytes, Progress progress)
      : path_(path),
        options_(options),
        buffer_(std::move(scratch_path), memory_bytes),
        progress_(std::move(progress)) {}

  void Read() {
    LineReader reader(path_);
    bool strings = options_.ids == NodeIdKind::kStrings;
    bool guessed = options_.ids != NodeIdKind::kGuess;
    bool first = true;
    uint64_t line = 0;
    while (true) {
      std::string_view text = reader.Next();
      if (text.empty()) break;
      // The mark that Windows' editors put before UTF-8 is no part of the first id.
      if (first && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
      first = false;
      if (!guessed) guessed = GuessIds(text, line, strings);
      if (strings) {
        ReadStrings(text, line);
      } else {
        ReadIntegers(text, line);
      }
      if (progress_) progress_("reading edges", reader.bytes_read(), reader.bytes_total());
    }
    FinishPiece();
    strings_ = strings;
    if (!strings) integers_.Finish();
  }

  int64_t nodes() const { return strings_ ? names_.count() : integers_.count(); }

  void Write(StoreWriter& writer, size_t node_type, size_t edge_type) {
    if (strings_) {
      writer.SetNames(node_type, names_.Names());
    } else if (!integers_.identity()) {
      writer.SetOriginalIds(node_type, integers_.Ids());
    }
    buffer_.Drain([&](EdgePiece& piece) {
      if (!strings_) {
        integers_.Number(piece.src);
        integers_.Number(piece.dst);
      }
      AppendEdgesEitherWay(writer, edge_type, options_.both_ways, piece.src, piece.dst,
                           piece.weights, piece.times);
    });
  }

 private:
  // False where there is no edge in the text yet.
  bool GuessIds(std::string_view text, uint64_t line, bool& strings) const {
    size_t position = 0;
    EdgeLine edge;
    if (!NextEdge(text, position, line, options_.third, path_, edge)) return false;
    int64_t ignored = 0;
    const auto numbers = [&](const EdgeLine& ends) {
      return ParseNodeId(ends.src, ignored) && ParseNodeId(ends.dst, ignored);
    };
    strings = !numbers(edge);
    const uint64_t first_line = line;
    if (strings && NextEdge(text, position, line, options_.third, path_, edge) && numbers(edge)) {
      throw Error(ErrorCode::kInvalidArgument,
                  path_ + ": line " + std::to_string(first_line) +
                      " is not two node numbers from 0 to 2^63 - 1 though line " +
                      std::to_string(line) +
                      " is: remove it where it is a header, or say that ids are names "
                      "(--string-ids)");
    }
    return true;
  }

  void ReadIntegers(std::string_view text, uint64_t& line) {
    IntegerEdge edge{};
    for (size_t position = 0; NextIntegerEdge(text, position, line, options_.third, path_, edge);) {
      Push(edge.src, edge.dst, edge.weight, edge.time);
    }
  }

  void ReadStrings(std::string_view text, uint64_t& line) {
    EdgeLine edge;
    for (size_t position = 0; NextEdge(text, position, line, options_.third, path_, edge);) {
      const int64_t src = names_.Number(edge.src);
      Push(src, names_.Number(edge.dst), edge.weight, edge.time);
    }
  }

  void Push(int64_t src, int64_t dst, double weight, int64_t time) {
    piece_.src.push_back(src);
    piece_.dst.push_back(dst);
    if (options_.third == ThirdColumn::kWeight) {
      piece_.weights.push_back(static_cast<float>(weight));
    }
    if (options_.third == ThirdColumn::kTime) piece_.times.push_back(time);
    if (piece_.src.size() == kPiece) FinishPiece();
  }

  void FinishPiece() {
    // Of strings these are numbers already; the table that they would fill is not used.
    if (names_.count() == 0) {
      integers_.Add(piece_.src);
      integers_.Add(piece_.dst);
    }
    buffer_.Add(piece_);
    piece_.clear();
  }

  const std::string& path_;
  const EdgeListOptions& options_;
  EdgeBuffer buffer_;
  Progress progress_;
  EdgePiece piece_;
  IntegerIds integers_;
  StringIds names_;
  bool strings_ = false;
};

// Beside the store, on the disk that must have room for it anyway.
std::string ScratchPath(const std::string& store) {
  namespace fs = std::filesystem;
  fs::path folder = fs::absolute(store).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = "." + folder.filename().string() + ".edges-" + std::to_string(getpid());
  return (folder.parent_path() / name).string();
}

}  // namespace

void ImportEdgeList(const std::string& path, const EdgeListOptions& options,
                    const std::string& store, StoreWriter::Options writer_options,
                    EdgeTypeOptions edge_options) {
  const Progress progress = writer_options.progress;
  // A third for what was read, the rest for sorting it.
  const uint64_t read_bytes = writer_options.memory_bytes / 3;
  writer_options.memory_bytes -= read_bytes;
  // First, so that a store that is in the way is said before the reading.
  StoreWriter writer(store, std::move(writer_options));
  EdgeListImport import(path, options, ScratchPath(store), read_bytes, progress);
  import.Read();
  const size_t node = writer.AddNodeType("node", import.nodes());
  edge_options.order = EdgeOrder::kRenumber;
  edge_options.has_weights = options.third == ThirdColumn::kWeight;
  edge_options.has_times = options.third == ThirdColumn::kTime;
  const size_t edge = writer.AddEdgeType(node, "to", node, edge_options);
  import.Write(writer, node, edge);
  WriteNodeArrays(options.nodes, import.nodes(), writer, node, progress);
  writer.Commit();
}

}  // namespace offpath::graph
