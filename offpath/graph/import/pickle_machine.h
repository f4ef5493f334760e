// The stack machine behind a Pickle; lives only while one is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "offpath/graph/import/pickle_input.h"
#include "offpath/graph/import/pickle_reader.h"

namespace offpath::graph {

class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::string_view bytes)
      : pickle_(pickle), input_(bytes, pickle.context_) {}

  void Run();

 private:
  // ---- nodes and stack (pickle_machine.cc)
  PickleNode& Push(PickleKind kind);
  void PushInt(int64_t value) { Push(PickleKind::kInt).integer = value; }
  void PushBool(bool value) { Push(PickleKind::kBool).integer = value ? 1 : 0; }
  void PushString(PickleKind kind, std::string_view text) { Push(kind).text = text; }
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t Pop();
  uint32_t Top() const;
  // The values above the last mark, in `popped_`; removes both.
  const std::vector<uint32_t>& PopToMark();
  PickleNode& NodeAt(uint32_t id) { return pickle_.nodes_[id]; }
  void PushTuple(size_t count);
  void AppendTo(PickleKind kind, const std::vector<uint32_t>& values);
  void AppendPair();
  void Get(uint64_t index);
  void Put(uint64_t index) { memo_[index] = Top(); }

  // ---- globals and calls (pickle_machine.cc)
  void PushGlobal(std::string_view module, std::string_view name);
  void ReadGlobal();
  void StackGlobal();
  void Call();
  void PushObject(PickleGlobal global, uint32_t arguments);
  // _codecs.encode(text, "latin1"): bytes, each written as the code point of that value.
  void PushEncoded(const std::vector<uint32_t>& items);
  void Build();

  // ---- numbers and strings with a form of their own (pickle_opcodes.cc)
  void ReadInt();
  void ReadLong();
  // Little-endian two's complement of any length; what exceeds 64 bits is refused.
  void ReadBinaryLong(uint64_t count);
  void ReadBinaryFloat();
  void ReadQuotedString();
  void ReadUnicodeLine();

  // ---- opcodes (pickle_opcodes.cc)
  // Executes one; false at the pickle's end. Grouped as in Python's pickletools.
  bool Step();
  bool StepContainer(unsigned char opcode);
  bool StepScalar(unsigned char opcode);

  Pickle& pickle_;
  PickleInput input_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> popped_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  uint64_t encoded_bytes_ = 0;
};

}  // namespace offpath::graph
