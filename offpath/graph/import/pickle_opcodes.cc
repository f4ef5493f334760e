#include <bit>
#include <cstring>
#include <string>

#include "offpath/graph/import/pickle_machine.h"
#include "offpath/graph/import/pickle_strings.h"

namespace offpath::graph {

void PickleMachine::ReadInt() {
  const std::string_view line = input_.TakeLine();
  if (line == "00" || line == "01") return PushBool(line == "01");
  PushInt(input_.Parse<int64_t>(line));
}

void PickleMachine::ReadLong() {
  std::string_view line = input_.TakeLine();
  if (line.ends_with('L')) line.remove_suffix(1);
  PushInt(input_.Parse<int64_t>(line));
}

void PickleMachine::ReadBinaryLong(uint64_t count) {
  const std::string_view bytes = input_.Take(count);
  if (bytes.size() > sizeof(int64_t)) input_.Refuse("an integer of more than 64 bits");
  uint64_t value = 0;
  if (!bytes.empty() && static_cast<signed char>(bytes.back()) < 0) value = ~uint64_t{0};
  std::memcpy(&value, bytes.data(), bytes.size());
  PushInt(static_cast<int64_t>(value));
}

void PickleMachine::ReadBinaryFloat() {
  const auto big_endian = input_.Read<uint64_t>();
  Push(PickleKind::kFloat).real = std::bit_cast<double>(__builtin_bswap64(big_endian));
}

void PickleMachine::ReadQuotedString() {
  std::string_view line = input_.TakeLine();
  if (line.size() < 2 || (line.front() != '\'' && line.front() != '"') ||
      line.front() != line.back()) {
    input_.Fail("has a string without its quotes");
  }
  line = line.substr(1, line.size() - 2);
  if (line.find('\\') == std::string_view::npos) return PushString(PickleKind::kBytes, line);
  PushString(PickleKind::kBytes, pickle_.owned_.emplace_back(UnescapePickleString(line, input_)));
}

void PickleMachine::ReadUnicodeLine() {
  const std::string_view line = input_.TakeLine();
  if (line.find('\\') != std::string_view::npos) input_.Refuse("a unicode string with escapes");
  PushString(PickleKind::kText, line);
}

bool PickleMachine::StepScalar(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      Push(PickleKind::kNone);
      return true;
    case 0x88:  // NEWTRUE, NEWFALSE
    case 0x89:
      PushBool(opcode == 0x88);
      return true;
    case 'I':
      ReadInt();
      return true;
    case 'L':
      ReadLong();
      return true;
    case 'J':
      PushInt(input_.Read<int32_t>());
      return true;
    case 'K':
      PushInt(input_.Read<uint8_t>());
      return true;
    case 'M':
      PushInt(input_.Read<uint16_t>());
      return true;
    case 0x8A:  // LONG1, LONG4
      ReadBinaryLong(input_.Read<uint8_t>());
      return true;
    case 0x8B:
      ReadBinaryLong(input_.Read<uint32_t>());
      return true;
    case 'F': {
      const auto value = input_.Parse<double>(input_.TakeLine());
      Push(PickleKind::kFloat).real = value;
      return true;
    }
    case 'G':
      ReadBinaryFloat();
      return true;
    case 'S':
      ReadQuotedString();
      return true;
    case 'V':
      ReadUnicodeLine();
      return true;
    case 'U':  // SHORT_BINSTRING, SHORT_BINBYTES
    case 'C':
      PushString(PickleKind::kBytes, input_.Take(input_.Read<uint8_t>()));
      return true;
    case 'T':  // BINSTRING (its length is signed: what is negative is cut short), BINBYTES
    case 'B':
      PushString(PickleKind::kBytes, input_.Take(input_.Read<uint32_t>()));
      return true;
    case 0x8E:  // BINBYTES8, BYTEARRAY8
    case 0x96:
      PushString(PickleKind::kBytes, input_.Take(input_.Read<uint64_t>()));
      return true;
    case 'X':  // BINUNICODE and its short and long forms
      PushString(PickleKind::kText, input_.Take(input_.Read<uint32_t>()));
      return true;
    case 0x8C:
      PushString(PickleKind::kText, input_.Take(input_.Read<uint8_t>()));
      return true;
    case 0x8D:
      PushString(PickleKind::kText, input_.Take(input_.Read<uint64_t>()));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::StepContainer(unsigned char opcode) {
  switch (opcode) {
    case ')':
      Push(PickleKind::kTuple);
      return true;
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      PushTuple(opcode - 0x84U);
      return true;
    case ']':
      Push(PickleKind::kList);
      return true;
    case '}':
      Push(PickleKind::kDict);
      return true;
    case 't':
    case 'l':
    case 'd': {
      const std::vector<uint32_t>& values = PopToMark();
      Push(opcode == 't'   ? PickleKind::kTuple
           : opcode == 'l' ? PickleKind::kList
                           : PickleKind::kDict);
      if (opcode == 'd') {
        AppendTo(PickleKind::kDict, values);
      } else {
        pickle_.nodes_.back().items.assign(values.begin(), values.end());
      }
      return true;
    }
    case 'a': {
      const uint32_t value = Pop();
      AppendTo(PickleKind::kList, {value});
      return true;
    }
    case 'e':
      AppendTo(PickleKind::kList, PopToMark());
      return true;
    case 's':
      AppendPair();
      return true;
    case 'u':
      AppendTo(PickleKind::kDict, PopToMark());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::Step() {
  const auto opcode = input_.Read<unsigned char>();
  if (StepScalar(opcode) || StepContainer(opcode)) return true;
  switch (opcode) {
    case '.':
      return false;
    case 0x80:  // PROTO
      if (input_.Read<uint8_t>() > 5) input_.Refuse("a pickle of a protocol above 5");
      return true;
    case 0x95:  // FRAME: its length only helps readers of streams
      if (input_.Read<uint64_t>() > input_.left()) input_.Fail("is cut short");
      return true;
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      Pop();
      return true;
    case '1':
      PopToMark();
      return true;
    case '2':
      stack_.push_back(Top());
      return true;
    case 'g':
      Get(input_.Parse<uint64_t>(input_.TakeLine()));
      return true;
    case 'h':
      Get(input_.Read<uint8_t>());
      return true;
    case 'j':
      Get(input_.Read<uint32_t>());
      return true;
    case 'p':
      Put(input_.Parse<uint64_t>(input_.TakeLine()));
      return true;
    case 'q':
      Put(input_.Read<uint8_t>());
      return true;
    case 'r':
      Put(input_.Read<uint32_t>());
      return true;
    case 0x94:  // MEMOIZE
      Put(memo_.size());
      return true;
    case 'c':
      ReadGlobal();
      return true;
    case 0x93:
      StackGlobal();
      return true;
    case 'R':  // REDUCE and NEWOBJ: for the classes on the list both mean "made from these"
    case 0x81:
      Call();
      return true;
    case 'b':
      Build();
      return true;
    default:
      input_.Refuse("the pickle's opcode " + std::to_string(opcode));
  }
}

}  // namespace offpath::graph
