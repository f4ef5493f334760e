#include "offpath/graph/import/guess.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/import/planetoid.h"

namespace offpath::graph {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kKnown =
    "known are: a SNAP edge list (.txt, .csv, .tsv, .gz), a .npz of SciPy, a .npz or a folder with "
    "edge_index.npy (or src.npy and dst.npy), a Planetoid folder (ind.cora.graph), `wordnet` and "
    "`rmat`";

[[noreturn]] void Unknown(const std::string& source, std::string_view why) {
  throw Error(ErrorCode::kUnsupported,
              "'" + source + "' " + std::string(why) + "; " + std::string(kKnown));
}

bool Has(const fs::path& folder, std::string_view name) {
  std::error_code ignored;
  return fs::exists(folder / name, ignored);
}

std::string Planetoid(const std::string& name) { return "Planetoid's files of '" + name + "'"; }

SourceGuess GuessFolder(const std::string& source) {
  const fs::path folder = source;
  if (Has(folder, "edge_index.npy") || (Has(folder, "src.npy") && Has(folder, "dst.npy"))) {
    return {SourceFormat::kNpy, source, "", "a folder of NumPy arrays"};
  }
  if (Has(folder, "data.noun")) return {SourceFormat::kWordnet, source, "", "WordNet's dictionary"};
  const std::vector<std::string> names = ListPlanetoid(source);
  if (names.size() == 1) return {SourceFormat::kPlanetoid, source, names[0], Planetoid(names[0])};
  if (names.size() > 1) {
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kInvalidArgument,
                "'" + source + "' holds several graphs of Planetoid (" + all +
                    "): name one of them by its file, such as " +
                    (folder / ("ind." + names[0] + ".graph")).string());
  }
  if (Has(folder, "store.json")) Unknown(source, "is a store already");
  Unknown(source, "is a folder without the files of a format that is read");
}

std::string FirstBytes(const std::string& path) {
  std::string head(512, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorCode::kInvalidArgument, "'" + path + "' cannot be opened for reading");
  }
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// Whether all names are in the archive's directory, which stands at its end.
bool Mentions(const std::string& path, std::initializer_list<std::string_view> names) {
  constexpr std::streamoff kTail = 65536;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string tail(static_cast<size_t>(std::min(size, kTail)), '\0');
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
    return tail.find(std::string(name) + ".npy") != std::string::npos;
  });
}

SourceGuess GuessFile(const std::string& source) {
  const std::string name = fs::path(source).filename().string();
  if (name.starts_with("ind.")) {
    const size_t end = name.find('.', 4);
    if (end != std::string::npos && end > 4) {
      std::string folder = fs::path(source).parent_path().string();
      if (folder.empty()) folder = ".";
      const std::string dataset = name.substr(4, end - 4);
      return {SourceFormat::kPlanetoid, folder, dataset, Planetoid(dataset)};
    }
  }
  const std::string head = FirstBytes(source);
  for (const std::string_view ending : {".gz", ".npz", ".npy"}) {
    if (!head.empty() || !name.ends_with(ending)) continue;
    throw Error(ErrorCode::kCorruptData,
                "'" + source + "' is an empty file, which no " + std::string(ending) + " is");
  }
  if (head.starts_with("PK")) {
    if (Mentions(source, {"indptr", "indices", "shape"}) ||
        Mentions(source, {"row", "col", "shape"})) {
      return {SourceFormat::kScipy, source, "", "a sparse matrix of SciPy"};
    }
    if (Mentions(source, {"edge_index"}) || Mentions(source, {"src", "dst"})) {
      return {SourceFormat::kNpy, source, "", "an archive of NumPy arrays"};
    }
    Unknown(source, "is a zip archive with neither SciPy's arrays nor edge_index");
  }
  if (head.starts_with("\x93NUMPY")) {
    if (name == "edge_index.npy") {
      return {SourceFormat::kNpy, source, "", "an edge_index of NumPy"};
    }
    return {SourceFormat::kNpy, source, "", "an array of NumPy, taken for an edge_index"};
  }
  if (head.starts_with("\x1f\x8b"))
    return {SourceFormat::kEdgeList, source, "", "a SNAP edge list, gzip"};
  if (head.find('\0') != std::string::npos) Unknown(source, "is a binary file that is not known");
  return {SourceFormat::kEdgeList, source, "", "a SNAP edge list"};
}

}  // namespace

SourceGuess GuessSource(const std::string& source) {
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (fs::is_directory(status)) return GuessFolder(source);
  if (fs::exists(status)) {
    // A pipe would block, and gives its bytes once: they are looked at before they are read.
    if (!fs::is_regular_file(status)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "'" + source + "' is neither a regular file nor a folder; save it as a file");
    }
    return GuessFile(source);
  }
  if (source == "rmat") return {SourceFormat::kRmat, "", "", "a seeded R-MAT graph"};
  if (source == "wordnet") return {SourceFormat::kWordnet, "", "", "WordNet's dictionary"};
  throw Error(
      ErrorCode::kNotFound,
      "'" + source + "' is neither a file, a folder nor a built-in source; " + std::string(kKnown));
}

}  // namespace offpath::graph
