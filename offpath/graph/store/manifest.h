// store.json: what a store says of itself, checked against itself.
//
// The parser trusts nothing: every field is required or refused by name, counts are bounded, file
// names cannot leave the folder, and the shape and dtype of each array must be what its role and
// the counts ask for. So a Manifest that was parsed is consistent, and what is left to check is
// that the files are what it says. A checksum over the content (not the layout) of the JSON catches
// an edit. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/base/npy.h"

namespace offpath::graph {

inline constexpr std::string_view kManifestName = "store.json";
inline constexpr std::string_view kManifestFormat = "offpath-store";
inline constexpr uint64_t kManifestVersion = 1;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;
// Of nodes, edges and edge ids: sizes in bytes stay far from 64 bits.
inline constexpr int64_t kMaxCount = int64_t{1} << 48;
inline constexpr int64_t kMaxDim = int64_t{1} << 24;
inline constexpr size_t kMaxTypes = 4096;
inline constexpr size_t kMaxSplits = 64;
inline constexpr size_t kMaxDescription = 65536;  // bytes

struct ManifestFile {
  std::string name;  // in the store's folder
  NpyType type = NpyType::kI64;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;   // of the whole file
  uint32_t crc32c = 0;  // of the whole file
};

struct ManifestNodeType {
  std::string name;
  int64_t count = 0;
  int64_t num_classes = 0;
  std::optional<ManifestFile> features;        // f32 [count, dim]
  std::optional<ManifestFile> labels;          // i64 [count]
  std::optional<ManifestFile> original_ids;    // i64 [count]
  std::optional<ManifestFile> name_offsets;    // i64 [count + 1], with name_bytes or not at all
  std::optional<ManifestFile> name_bytes;      // u8 [n]
  std::map<std::string, ManifestFile> splits;  // i64 [n]
};

struct ManifestEdgeType {
  std::string src, relation, dst;
  size_t src_type = 0, dst_type = 0;  // indices into Manifest::node_types; not in the JSON
  int64_t num_edges = 0;
  // Edge ids are below it. Above num_edges where duplicates or self loops were dropped.
  int64_t num_edge_ids = 0;
  ManifestFile indptr;                   // i64 [count of dst + 1]
  ManifestFile indices;                  // u32 or i64 [num_edges]
  std::optional<ManifestFile> edge_ids;  // u32 or i64 [num_edges]
  std::optional<ManifestFile> weights;   // f32 [num_edges]
  std::optional<ManifestFile> times;     // i64 [num_edges]
  std::optional<ManifestFile> features;  // f32 [num_edge_ids, dim]
};

struct Manifest {
  std::string description;
  std::vector<ManifestNodeType> node_types;
  std::vector<ManifestEdgeType> edge_types;
  uint32_t fingerprint = 0;  // the checksum over the content, once it was checked
};

enum class ManifestChecksum {
  kRequire,
  kIgnore,  // for tests and fuzzing of the checks behind it
};

// Letters, digits, '_', '-' and '.', 1 to 100 of them, not starting with a '.'.
bool IsTypeName(std::string_view name) noexcept;

// Throws kCorruptData or kUnsupported (a version that is not known), naming `context` and the
// field.
Manifest ParseManifest(std::string_view text, std::string_view context,
                       ManifestChecksum checksum = ManifestChecksum::kRequire);

// The JSON, with its checksum. Bytes of the description that are not UTF-8 are replaced, and what
// is beyond 21845 bytes of it is cut.
std::string FormatManifest(const Manifest& manifest);

// Reads and parses FOLDER/store.json. Throws kNotFound where there is none.
Manifest ReadManifest(const std::string& folder);

}  // namespace offpath::graph
