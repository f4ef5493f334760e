// Reads a Python pickle (protocols 0 to 5) as data and executes nothing.
//
// A pickle is a program for a stack machine that may call whatever it names. This reader builds a
// tree of plain values instead. A call is kept as an Object node and means something only to a
// consumer that knows the callable (pickle_arrays.h); a callable that is not on the list of
// PickleGlobal is refused by name, as are the opcodes that sets, buffers, persistent ids and the
// extension registry need.
//
// The bytes are not trusted. Every opcode takes at least one byte and makes at most one node, so
// memory is bounded by the input's size, and by the caps below; nothing recurses. Nodes may be
// shared or contain themselves: a consumer must not walk a tree without a bound.
//
// Strings point into the input, which must outlive the Pickle. A `str` of Python 2 is kBytes.
// Thread-safe once read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offpath::graph {

inline constexpr size_t kMaxPickleBytes = size_t{1} << 30;
inline constexpr size_t kMaxPickleNodes = size_t{1} << 22;

// The callables and classes that a pickle may name; each stands for its module's old and new names.
enum class PickleGlobal : uint8_t {
  kReconstruct,    // numpy.core.multiarray._reconstruct, numpy._core...
  kNdarray,        // numpy.ndarray
  kDtype,          // numpy.dtype
  kCsrMatrix,      // scipy.sparse.csr.csr_matrix, scipy.sparse._csr.csr_matrix
  kDefaultDict,    // collections.defaultdict
  kList,           // __builtin__.list, builtins.list
  kDict,           // __builtin__.dict, builtins.dict
  kInt,            // __builtin__.int, builtins.int, __builtin__.long
  kObject,         // __builtin__.object, builtins.object
  kReconstructor,  // copy_reg._reconstructor, copyreg._reconstructor
  kEncode,         // _codecs.encode, how protocols 0 to 2 of Python 3 write bytes
};

enum class PickleKind : uint8_t {
  kNone,
  kBool,    // integer: 0 or 1
  kInt,     // integer
  kFloat,   // real
  kBytes,   // text
  kText,    // text, UTF-8 as it stands in the pickle
  kTuple,   // items
  kList,    // items
  kDict,    // items: key, value, key, value, ...; a repeated key is not merged
  kGlobal,  // global
  kObject,  // a call or a new object: global; items: the arguments' tuple, then the state if any
};

struct PickleNode {
  PickleKind kind = PickleKind::kNone;
  PickleGlobal global = PickleGlobal::kObject;
  union {
    int64_t integer = 0;
    double real;
  };
  std::string_view text;
  std::vector<uint32_t> items;  // for Pickle::node()
};

class Pickle {
 public:
  // Throws kCorruptData (naming `context` and the byte), kUnsupported (naming the opcode or the
  // global) or kResourceExhausted (naming the cap). Bytes after the pickle's end are refused.
  Pickle(std::string_view bytes, std::string_view context);

  const PickleNode& root() const { return nodes_[root_]; }
  const PickleNode& node(uint32_t id) const { return nodes_[id]; }
  const std::string& context() const noexcept { return context_; }

  // Throws kCorruptData: `what` (a place in the pickle's meaning) `problem`.
  [[noreturn]] void Fail(std::string_view what, std::string_view problem) const;

 private:
  friend class PickleMachine;
  std::string context_;
  std::vector<PickleNode> nodes_;
  std::deque<std::string> owned_;  // strings that had escapes
  uint32_t root_ = 0;
};

}  // namespace offpath::graph
