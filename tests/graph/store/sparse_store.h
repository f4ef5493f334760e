// A store with more edges than 2^31 that takes almost no disk: the sources of all edges but the
// last few are a hole in a sparse file, which reads as zeros.
//
// Node 0 has all edges but the last ones, every one from node 0; the last node has those that are
// given; the nodes between have none. Checksums are right, so the store verifies.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "offpath/base/crc32c.h"
#include "offpath/base/npy.h"
#include "offpath/graph/store/manifest.h"
#include "tests/base/temp_folder.h"

namespace offpath::graph {

inline uint32_t Crc32cOfZeros(uint64_t bytes) {
  constexpr uint64_t kBlock = 4096;
  if (bytes <= kBlock) return Crc32c(std::vector<std::byte>(static_cast<size_t>(bytes)));
  const uint64_t half = bytes / 2;
  const uint32_t crc_half = Crc32cOfZeros(half);
  const uint32_t crc = Crc32cCombine(crc_half, crc_half, half);
  return bytes % 2 == 0 ? crc : Crc32c(std::vector<std::byte>(1), crc);
}

inline std::string NpyHeaderOf(const std::string& dtype, uint64_t rows) {
  std::string dict = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': (" +
                     std::to_string(rows) + ",), }";
  dict.append(128 - 10 - 1 - dict.size(), ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += {'\x01', '\x00', static_cast<char>(dict.size()), '\x00'};
  return header + dict;
}

// `last_sources`: the sources, ascending, of the last node's edges; below num_nodes.
inline void MakeSparseStore(const std::string& folder, int64_t num_nodes, uint64_t num_edges,
                            const std::vector<uint32_t>& last_sources) {
  std::filesystem::create_directories(folder);
  const uint64_t hole_edges = num_edges - last_sources.size();

  std::vector<int64_t> indptr(static_cast<size_t>(num_nodes) + 1, static_cast<int64_t>(hole_edges));
  indptr.front() = 0;
  indptr.back() = static_cast<int64_t>(num_edges);
  NpyWriter writer(folder + "/indptr.npy", NpyType::kI64, {0});
  writer.WriteValues(std::span<const int64_t>(indptr));
  const auto indptr_file = writer.Finish();

  const std::string header = NpyHeaderOf("<u4", num_edges);
  const auto tail = std::as_bytes(std::span(last_sources));
  const std::string path = folder + "/indices.npy";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const uint64_t hole_bytes = hole_edges * sizeof(uint32_t);
  const bool written =
      fd >= 0 &&
      pwrite(fd, header.data(), header.size(), 0) == static_cast<ssize_t>(header.size()) &&
      ftruncate(fd, static_cast<off_t>(header.size() + hole_bytes + tail.size())) == 0 &&
      pwrite(fd, tail.data(), tail.size(), static_cast<off_t>(header.size() + hole_bytes)) ==
          static_cast<ssize_t>(tail.size());
  if (fd >= 0) close(fd);
  if (!written) throw std::runtime_error("cannot write " + path);
  uint32_t crc = Crc32cCombine(Crc32c(std::as_bytes(std::span(header))), Crc32cOfZeros(hole_bytes),
                               hole_bytes);
  crc = Crc32c(tail, crc);

  Manifest manifest;
  manifest.description = "sparse";
  manifest.node_types.resize(1);
  manifest.node_types[0].name = "node";
  manifest.node_types[0].count = num_nodes;
  manifest.edge_types.resize(1);
  ManifestEdgeType& edge = manifest.edge_types[0];
  edge.src = edge.dst = "node";
  edge.relation = "to";
  edge.num_edges = edge.num_edge_ids = static_cast<int64_t>(num_edges);
  edge.indptr = {"indptr.npy", NpyType::kI64, indptr_file.shape, indptr_file.bytes,
                 indptr_file.crc32c};
  edge.indices = {
      "indices.npy", NpyType::kU32, {num_edges}, header.size() + hole_bytes + tail.size(), crc};
  WriteFile(folder + "/" + std::string(kManifestName), FormatManifest(manifest));
}

}  // namespace offpath::graph
