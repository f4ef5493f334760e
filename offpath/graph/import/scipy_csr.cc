#include "offpath/graph/import/scipy_csr.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr size_t kPiece = size_t{1} << 18;  // edges

[[noreturn]] void Corrupt(std::string_view context, std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, std::string(context) + ": " + std::string(problem));
}

const NamedArray& Get(const std::map<std::string, NamedArray>& arrays, const char* name,
                      std::string_view context) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) Corrupt(context, std::string("the array '") + name + "' is missing");
  return found->second;
}

// "csr" as bytes or as text of 4-byte characters, without the zeros that pad it.
std::string FormatOf(const NamedArray& array) {
  const NpyType type = array.view.header.type;
  if ((type != NpyType::kBytes && type != NpyType::kUnicode) || array.size() != 1) {
    Corrupt(array.name, "is not one string");
  }
  const size_t step = type == NpyType::kUnicode ? 4 : 1;
  std::string text;
  for (size_t i = 0; i < array.view.data.size() && text.size() < 16; i += step) {
    const auto character = static_cast<char>(array.view.data[i]);
    if (character != '\0') text += character;
  }
  return text;
}

void CheckLine(const NamedArray& array) {
  if (array.view.header.shape.size() != 1) Corrupt(array.name, "has more than one dimension");
}

void CheckIndptr(const ScipyMatrix& matrix, int64_t lines) {
  const NamedArray& indptr = matrix.indptr;
  if (indptr.size() != static_cast<uint64_t>(lines) + 1) {
    Corrupt(indptr.name, "has " + std::to_string(indptr.size()) +
                             " entries where the shape asks for " + std::to_string(lines + 1));
  }
  std::vector<int64_t> piece;
  int64_t last = 0;
  for (uint64_t first = 0; first < indptr.size(); first += kPiece) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPiece, indptr.size() - first)));
    CopyInts(indptr, first, piece);
    if (first == 0 && piece[0] != 0) Corrupt(indptr.name, "does not start at 0");
    for (size_t i = 0; i < piece.size(); ++i) {
      if (piece[i] < last) Corrupt(indptr.name, "falls at " + std::to_string(first + i));
      last = piece[i];
    }
  }
  if (static_cast<uint64_t>(last) != matrix.entries()) {
    Corrupt(indptr.name, "ends at " + std::to_string(last) + " where there are " +
                             std::to_string(matrix.entries()) + " entries");
  }
}

// Rows and columns of entries [first, first + n), n by n.
class EntryReader {
 public:
  explicit EntryReader(const ScipyMatrix& matrix) : matrix_(matrix) {}

  void Read(uint64_t first, std::span<int64_t> rows, std::span<int64_t> cols) {
    switch (matrix_.layout) {
      case ScipyMatrix::Layout::kCoo:
        CopyInts(matrix_.indptr, first, rows);
        CopyInts(matrix_.indices, first, cols);
        return;
      case ScipyMatrix::Layout::kCsr:
        Lines(first, rows);
        CopyInts(matrix_.indices, first, cols);
        return;
      case ScipyMatrix::Layout::kCsc:
        Lines(first, cols);
        CopyInts(matrix_.indices, first, rows);
        return;
    }
  }

 private:
  // The line of each entry; called with rising ranges.
  void Lines(uint64_t first, std::span<int64_t> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      while (static_cast<uint64_t>(line_end_) <= first + i) {
        CopyInts(matrix_.indptr, static_cast<uint64_t>(line_) + 2, std::span(&line_end_, 1));
        ++line_;
      }
      out[i] = line_;
    }
  }

  const ScipyMatrix& matrix_;
  int64_t line_ = -1;
  int64_t line_end_ = 0;
};

}  // namespace

ScipyMatrix ParseScipy(const std::map<std::string, NamedArray>& arrays, std::string_view context) {
  ScipyMatrix matrix;
  const std::string format = FormatOf(Get(arrays, "format", context));
  const NamedArray& shape = Get(arrays, "shape", context);
  if (shape.size() != 2) Corrupt(shape.name, "does not hold two sizes");
  std::array<int64_t, 2> sizes{};
  CopyInts(shape, 0, sizes);
  constexpr int64_t kMost = int64_t{1} << 48;
  if (sizes[0] < 0 || sizes[1] < 0 || sizes[0] > kMost || sizes[1] > kMost) {
    Corrupt(shape.name, "holds a size that is not possible");
  }
  matrix.rows = sizes[0];
  matrix.cols = sizes[1];
  const bool coo = format == "coo";
  if (!coo && format != "csr" && format != "csc") {
    throw Error(ErrorCode::kUnsupported, std::string(context) + ": the sparse format '" + format +
                                             "' is not read; save it with .tocsr()");
  }
  matrix.layout = coo               ? ScipyMatrix::Layout::kCoo
                  : format == "csr" ? ScipyMatrix::Layout::kCsr
                                    : ScipyMatrix::Layout::kCsc;
  matrix.indptr = Get(arrays, coo ? "row" : "indptr", context);
  matrix.indices = Get(arrays, coo ? "col" : "indices", context);
  matrix.data = Get(arrays, "data", context);
  CheckLine(matrix.indptr);
  CheckLine(matrix.indices);
  CheckLine(matrix.data);
  if (matrix.data.size() != matrix.entries()) {
    Corrupt(matrix.data.name, "has " + std::to_string(matrix.data.size()) + " values for " +
                                  std::to_string(matrix.entries()) + " entries");
  }
  if (!coo) {
    CheckIndptr(matrix, format == "csr" ? matrix.rows : matrix.cols);
  } else if (matrix.indptr.size() != matrix.entries()) {
    Corrupt(context, "row and col have different lengths");
  }
  return matrix;
}

void ImportScipy(const ScipyMatrix& matrix, const ScipyOptions& options, const std::string& store,
                 StoreWriter::Options writer_options, EdgeTypeOptions edge_options) {
  const bool square = matrix.rows == matrix.cols;
  const NodeArrays& nodes = options.nodes;
  if (!square && (options.both_ways || nodes.features || nodes.labels || !nodes.splits.empty())) {
    throw Error(ErrorCode::kInvalidArgument,
                matrix.indices.name + ": a matrix of " + std::to_string(matrix.rows) + " by " +
                    std::to_string(matrix.cols) +
                    " has two node types; edges both ways and node arrays need a square one");
  }
  const Progress progress = writer_options.progress;
  StoreWriter writer(store, std::move(writer_options));
  const size_t row_type = writer.AddNodeType(square ? "node" : "row", matrix.rows);
  const size_t col_type = square ? row_type : writer.AddNodeType("col", matrix.cols);
  edge_options.has_weights = options.weights;
  const size_t edge = writer.AddEdgeType(row_type, "to", col_type, edge_options);

  EntryReader reader(matrix);
  std::vector<int64_t> rows, cols;
  std::vector<float> weights;
  for (uint64_t first = 0; first < matrix.entries(); first += kPiece) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kPiece, matrix.entries() - first));
    rows.resize(count);
    cols.resize(count);
    reader.Read(first, rows, cols);
    if (options.weights) {
      weights.resize(count);
      CopyReals(matrix.data, first, weights);
    }
    AppendEdgesEitherWay(writer, edge, options.both_ways, rows, cols, weights);
    if (progress) progress("reading edges", first + count, matrix.entries());
  }
  WriteNodeArrays(nodes, matrix.rows, writer, row_type, progress);
  writer.Commit();
}

void ImportScipy(const std::string& path, const ScipyOptions& options, const std::string& store,
                 StoreWriter::Options writer_options, EdgeTypeOptions edge_options) {
  const ScipyMatrix matrix = ParseScipy(OpenArchive(path, options.max_bytes), path);
  ImportScipy(matrix, options, store, std::move(writer_options), edge_options);
}

}  // namespace offpath::graph
