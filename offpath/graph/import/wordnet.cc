#include "offpath/graph/import/wordnet.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"
#include "offpath/base/random.h"

namespace offpath::graph {
namespace {

constexpr std::array<std::string_view, kWordnetParts> kFiles = {"data.noun", "data.verb",
                                                                "data.adj", "data.adv"};

struct Wordnet {
  std::array<MappedFile, kWordnetParts> files;
  std::array<std::vector<WordnetSynset>, kWordnetParts> parts;
  std::array<int64_t, kWordnetParts> first_node{};
  int64_t nodes = 0;
};

Wordnet ReadWordnet(const std::string& folder, const Progress& progress) {
  Wordnet wordnet;
  for (size_t part = 0; part < kWordnetParts; ++part) {
    const std::string path = folder + "/" + std::string(kFiles[part]);
    try {
      wordnet.files[part] = MappedFile(path, AccessPattern::kSequential);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      throw Error(ErrorCode::kNotFound,
                  "WordNet's " + path +
                      " is not there: install it with `apt-get install wordnet-base`, or name the "
                      "folder that holds it");
    }
    const auto bytes = wordnet.files[part].bytes();
    wordnet.parts[part] =
        ReadWordnetFile({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                        static_cast<WordnetPart>(part), path);
    wordnet.files[part].CheckIntact();
    wordnet.first_node[part] = wordnet.nodes;
    wordnet.nodes += static_cast<int64_t>(wordnet.parts[part].size());
    if (progress) progress("reading synsets", part + 1, kWordnetParts);
  }
  return wordnet;
}

// Calls visit(synset, node) in the order of the nodes.
template <typename Visitor>
void ForEachSynset(const Wordnet& wordnet, Visitor visit) {
  int64_t node = 0;
  for (const auto& part : wordnet.parts) {
    for (const WordnetSynset& synset : part) visit(synset, node++);
  }
}

int64_t NodeAt(const Wordnet& wordnet, const WordnetPointer& pointer, size_t from_part) {
  const auto part = static_cast<size_t>(pointer.part);
  const auto& synsets = wordnet.parts[part];
  const auto found = std::lower_bound(
      synsets.begin(), synsets.end(), pointer.offset,
      [](const WordnetSynset& synset, uint32_t offset) { return synset.offset < offset; });
  if (found == synsets.end() || found->offset != pointer.offset) {
    throw Error(ErrorCode::kCorruptData, wordnet.files[from_part].path() + ": a pointer leads to " +
                                             std::string(kFiles[part]) + " byte " +
                                             std::to_string(pointer.offset) +
                                             ", where no synset starts");
  }
  return wordnet.first_node[part] + (found - synsets.begin());
}

struct Edges {
  std::vector<int64_t> src;
  std::vector<int64_t> dst;
};

std::vector<Edges> EdgesByRelation(const Wordnet& wordnet) {
  std::vector<Edges> edges(WordnetRelations().size());
  int64_t node = 0;
  for (size_t part = 0; part < kWordnetParts; ++part) {
    for (const WordnetSynset& synset : wordnet.parts[part]) {
      for (const WordnetPointer& pointer : synset.pointers) {
        edges[pointer.relation].src.push_back(node);
        edges[pointer.relation].dst.push_back(NodeAt(wordnet, pointer, part));
      }
      ++node;
    }
  }
  return edges;
}

void WriteFeatures(const Wordnet& wordnet, int64_t dim, StoreWriter& writer, size_t node_type) {
  constexpr size_t kChunkRows = 4096;
  const auto width = static_cast<size_t>(dim);
  std::vector<float> rows;
  rows.reserve(kChunkRows * width);
  ForEachSynset(wordnet, [&](const WordnetSynset& synset, int64_t) {
    rows.resize(rows.size() + width);
    HashGloss(synset.gloss, std::span(rows).last(width));
    if (rows.size() < kChunkRows * width) return;
    writer.AppendFeatures(node_type, rows, dim);
    rows.clear();
  });
  if (!rows.empty()) writer.AppendFeatures(node_type, rows, dim);
}

void WriteSplits(int64_t nodes, uint64_t seed, StoreWriter& writer, size_t node_type) {
  const uint64_t key = Combine(seed, 0x776F7264);
  std::vector<int64_t> train, val, test;
  for (int64_t node = 0; node < nodes; ++node) {
    const double place = UnitDouble(Draw(key, static_cast<uint64_t>(node)));
    (place < 0.6 ? train : place < 0.8 ? val : test).push_back(node);
  }
  writer.SetSplit(node_type, "train", train);
  writer.SetSplit(node_type, "val", val);
  writer.SetSplit(node_type, "test", test);
}

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte >= 0x80;
}

}  // namespace

double WordnetSummary::MajorityShare() const noexcept {
  const int64_t largest = *std::max_element(class_counts.begin(), class_counts.end());
  return synsets == 0 ? 0 : static_cast<double>(largest) / static_cast<double>(synsets);
}

void HashGloss(std::string_view gloss, std::span<float> row) noexcept {
  std::fill(row.begin(), row.end(), 0.0F);
  for (size_t i = 0; i < gloss.size();) {
    if (!IsWordByte(gloss[i])) {
      ++i;
      continue;
    }
    uint64_t hash = 0;
    for (; i < gloss.size() && IsWordByte(gloss[i]); ++i) {
      auto byte = static_cast<unsigned char>(gloss[i]);
      if (byte >= 'A' && byte <= 'Z') byte = static_cast<unsigned char>(byte + ('a' - 'A'));
      hash = Combine(hash, byte);
    }
    // The high bits choose the place, the lowest the sign.
    row[Below(hash, row.size())] += (hash & 1) != 0 ? 1.0F : -1.0F;
  }
  double squares = 0;
  for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& x : row) x = static_cast<float>(static_cast<double>(x) * scale);
}

WordnetSummary ImportWordnet(const WordnetOptions& options, const std::string& store,
                             StoreWriter::Options writer_options, EdgeTypeOptions edge_options) {
  if (options.dim < 0 || options.dim > 1 << 16) {
    throw Error(ErrorCode::kInvalidArgument, "wordnet: dim must be from 0 to 65536");
  }
  const Wordnet wordnet = ReadWordnet(options.folder, writer_options.progress);
  const std::vector<Edges> edges = EdgesByRelation(wordnet);

  WordnetSummary summary;
  summary.synsets = wordnet.nodes;
  std::vector<int64_t> labels, ids;
  std::vector<std::string> names;
  ForEachSynset(wordnet, [&](const WordnetSynset& synset, int64_t) {
    labels.push_back(synset.lex_file);
    names.push_back(synset.lemmas);
    ++summary.class_counts[synset.lex_file];
  });
  for (size_t part = 0; part < kWordnetParts; ++part) {
    for (const WordnetSynset& synset : wordnet.parts[part]) {
      ids.push_back(static_cast<int64_t>((part + 1) * 100'000'000 + synset.offset));
    }
  }

  writer_options.description = "WordNet from " + options.folder;
  StoreWriter writer(store, std::move(writer_options));
  const size_t synset = writer.AddNodeType("synset", wordnet.nodes);
  if (options.dim > 0) WriteFeatures(wordnet, options.dim, writer, synset);
  writer.SetLabels(synset, labels, kWordnetLexFiles);
  writer.SetNames(synset, names);
  writer.SetOriginalIds(synset, ids);
  WriteSplits(wordnet.nodes, options.seed, writer, synset);

  edge_options.order = EdgeOrder::kRenumber;
  size_t merged = 0;
  if (options.homogeneous) merged = writer.AddEdgeType(synset, "pointer", synset, edge_options);
  for (size_t relation = 0; relation < edges.size(); ++relation) {
    const auto& [src, dst] = edges[relation];
    if (src.empty()) continue;
    const std::string name(WordnetRelations()[relation].name);
    summary.edges.emplace_back(name, static_cast<int64_t>(src.size()));
    const size_t edge_type =
        options.homogeneous ? merged : writer.AddEdgeType(synset, name, synset, edge_options);
    writer.AppendEdges(edge_type, src, dst);
  }
  writer.Commit();
  return summary;
}

}  // namespace offpath::graph
