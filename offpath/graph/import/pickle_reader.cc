#include "offpath/graph/import/pickle_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

struct NamedGlobal {
  std::string_view module;
  std::string_view name;
  PickleGlobal global;
};

constexpr std::array<NamedGlobal, 20> kGlobals = {{
    {"numpy.core.multiarray", "_reconstruct", PickleGlobal::kReconstruct},
    {"numpy._core.multiarray", "_reconstruct", PickleGlobal::kReconstruct},
    {"numpy", "ndarray", PickleGlobal::kNdarray},
    {"numpy", "dtype", PickleGlobal::kDtype},
    {"scipy.sparse.csr", "csr_matrix", PickleGlobal::kCsrMatrix},
    {"scipy.sparse._csr", "csr_matrix", PickleGlobal::kCsrMatrix},
    {"collections", "defaultdict", PickleGlobal::kDefaultDict},
    {"__builtin__", "list", PickleGlobal::kList},
    {"builtins", "list", PickleGlobal::kList},
    {"__builtin__", "dict", PickleGlobal::kDict},
    {"builtins", "dict", PickleGlobal::kDict},
    {"__builtin__", "int", PickleGlobal::kInt},
    {"__builtin__", "long", PickleGlobal::kInt},
    {"builtins", "int", PickleGlobal::kInt},
    {"__builtin__", "object", PickleGlobal::kObject},
    {"builtins", "object", PickleGlobal::kObject},
    {"copy_reg", "_reconstructor", PickleGlobal::kReconstructor},
    {"copyreg", "_reconstructor", PickleGlobal::kReconstructor},
    {"_codecs", "encode", PickleGlobal::kEncode},
    {"codecs", "encode", PickleGlobal::kEncode},
}};

// Names in messages: hostile bytes must not reach a terminal.
std::string Printable(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return text.size() > kMost ? result + "..." : result;
}

}  // namespace

// The stack machine. Lives only while a Pickle is read.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::string_view bytes) : pickle_(pickle), bytes_(bytes) {}

  void Run() {
    while (Step()) {
    }
    if (position_ != bytes_.size()) Fail("is followed by unexpected bytes");
    if (stack_.size() != 1 || !marks_.empty()) Fail("does not leave exactly one value");
    pickle_.root_ = stack_[0];
  }

 private:
  [[noreturn]] void Fail(std::string_view problem) const {
    throw Error(ErrorCode::kCorruptData, pickle_.context_ + ": the pickle " + std::string(problem) +
                                             " at byte " + std::to_string(position_));
  }
  [[noreturn]] void Refuse(std::string_view what) const {
    throw Error(ErrorCode::kUnsupported, pickle_.context_ + ": " + std::string(what) + " at byte " +
                                             std::to_string(position_) +
                                             ": only arrays, CSR matrices, dictionaries, lists, "
                                             "numbers and strings are read from a pickle");
  }

  // ---- input
  std::string_view Take(uint64_t count) {
    if (count > bytes_.size() - position_) Fail("is cut short");
    const std::string_view result = bytes_.substr(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return result;
  }
  template <typename T>
  T Read() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view TakeLine() {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) Fail("is cut short");
    const std::string_view line = Take(end - position_);
    ++position_;
    return line;
  }
  template <typename T>
  T Parse(std::string_view text) const {
    T value{};
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) Fail("has a line that is not a number");
    return value;
  }

  // ---- nodes and stack
  PickleNode& Push(PickleKind kind) {
    if (pickle_.nodes_.size() >= kMaxPickleNodes) {
      throw Error(ErrorCode::kResourceExhausted, pickle_.context_ +
                                                     ": the pickle holds more than " +
                                                     std::to_string(kMaxPickleNodes) + " values");
    }
    stack_.push_back(static_cast<uint32_t>(pickle_.nodes_.size()));
    PickleNode& node = pickle_.nodes_.emplace_back();
    node.kind = kind;
    return node;
  }
  void PushInt(int64_t value) { Push(PickleKind::kInt).integer = value; }
  void PushBool(bool value) { Push(PickleKind::kBool).integer = value ? 1 : 0; }
  void PushString(PickleKind kind, std::string_view text) { Push(kind).text = text; }

  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t Pop() {
    if (stack_.size() <= Floor()) Fail("takes a value that is not there");
    const uint32_t id = stack_.back();
    stack_.pop_back();
    return id;
  }
  uint32_t Top() const {
    if (stack_.size() <= Floor()) Fail("takes a value that is not there");
    return stack_.back();
  }
  // The values above the last mark, in `popped_`; removes both.
  const std::vector<uint32_t>& PopToMark() {
    if (marks_.empty()) Fail("takes a mark that is not there");
    popped_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return popped_;
  }
  PickleNode& NodeAt(uint32_t id) { return pickle_.nodes_[id]; }

  void PushTuple(size_t count) {
    popped_.resize(count);
    for (size_t i = count; i-- > 0;) popped_[i] = Pop();
    Push(PickleKind::kTuple).items.assign(popped_.begin(), popped_.end());
  }
  void AppendTo(PickleKind kind, const std::vector<uint32_t>& values) {
    PickleNode& target = NodeAt(Top());
    if (target.kind != kind) Fail("appends to a value that cannot take it");
    if (kind == PickleKind::kDict && values.size() % 2 != 0) Fail("has a key without a value");
    target.items.insert(target.items.end(), values.begin(), values.end());
  }
  void AppendPair() {
    const uint32_t value = Pop();
    const uint32_t key = Pop();
    AppendTo(PickleKind::kDict, {key, value});
  }

  void Get(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) Fail("refers to a value that it has not stored");
    stack_.push_back(found->second);
  }
  void Put(uint64_t index) { memo_[index] = Top(); }

  // ---- numbers and strings with a form of their own
  void ReadInt() {
    const std::string_view line = TakeLine();
    if (line == "00" || line == "01") return PushBool(line == "01");
    PushInt(Parse<int64_t>(line));
  }
  void ReadLong() {
    std::string_view line = TakeLine();
    if (line.ends_with('L')) line.remove_suffix(1);
    PushInt(Parse<int64_t>(line));
  }
  // Little-endian two's complement of any length; what exceeds 64 bits is refused.
  void ReadBinaryLong(uint64_t count) {
    const std::string_view bytes = Take(count);
    if (bytes.size() > sizeof(int64_t)) Refuse("an integer of more than 64 bits");
    uint64_t value = 0;
    if (!bytes.empty() && static_cast<signed char>(bytes.back()) < 0) value = ~uint64_t{0};
    std::memcpy(&value, bytes.data(), bytes.size());
    PushInt(static_cast<int64_t>(value));
  }
  void ReadBinaryFloat() {
    const auto big_endian = Read<uint64_t>();
    Push(PickleKind::kFloat).real = std::bit_cast<double>(__builtin_bswap64(big_endian));
  }
  void ReadQuotedString() {
    std::string_view line = TakeLine();
    if (line.size() < 2 || (line.front() != '\'' && line.front() != '"') ||
        line.front() != line.back()) {
      Fail("has a string without its quotes");
    }
    line = line.substr(1, line.size() - 2);
    if (line.find('\\') == std::string_view::npos) return PushString(PickleKind::kBytes, line);
    PushString(PickleKind::kBytes, pickle_.owned_.emplace_back(Unescape(line)));
  }
  std::string Unescape(std::string_view line) const {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] != '\\') {
        text += line[i];
        continue;
      }
      if (++i == line.size()) Fail("has a string that ends in a backslash");
      constexpr std::string_view kEscapes = "\\'\"abfnrtv";
      constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t escape = kEscapes.find(line[i]); escape != std::string_view::npos) {
        text += kMeanings[escape];
      } else if (line[i] == 'x' && line.size() - i > 2) {
        unsigned value = 0;
        const char* end = line.data() + i + 3;
        if (std::from_chars(line.data() + i + 1, end, value, 16).ptr != end) {
          Fail("has a string with a bad \\x");
        }
        text += static_cast<char>(value);
        i += 2;
      } else {
        Fail("has a string with an unknown escape");
      }
    }
    return text;
  }
  void ReadUnicodeLine() {
    const std::string_view line = TakeLine();
    if (line.find('\\') != std::string_view::npos) Refuse("a unicode string with escapes");
    PushString(PickleKind::kText, line);
  }

  // ---- globals and calls
  void PushGlobal(std::string_view module, std::string_view name) {
    for (const NamedGlobal& known : kGlobals) {
      if (known.module == module && known.name == name) {
        Push(PickleKind::kGlobal).global = known.global;
        return;
      }
    }
    Refuse("the pickle names " + Printable(module) + "." + Printable(name) +
           ", which is not executed");
  }
  void ReadGlobal() {
    const std::string_view module = TakeLine();
    PushGlobal(module, TakeLine());
  }
  void StackGlobal() {
    const PickleNode& name = NodeAt(Pop());
    const PickleNode& module = NodeAt(Pop());
    if (name.kind != PickleKind::kText || module.kind != PickleKind::kText) {
      Fail("names a global by something that is no string");
    }
    PushGlobal(module.text, name.text);
  }
  void Call() {
    const uint32_t arguments = Pop();
    const uint32_t callable = Pop();
    if (NodeAt(callable).kind != PickleKind::kGlobal ||
        NodeAt(arguments).kind != PickleKind::kTuple) {
      Fail("calls something that is no known global, or not with a tuple");
    }
    const PickleGlobal global = NodeAt(callable).global;
    const std::vector<uint32_t>& items = NodeAt(arguments).items;
    switch (global) {
      case PickleGlobal::kList:
      case PickleGlobal::kDict:
        if (!items.empty()) Refuse("a list or dict made from another value");
        Push(global == PickleGlobal::kList ? PickleKind::kList : PickleKind::kDict);
        return;
      case PickleGlobal::kDefaultDict:  // its factory plays no part in what it holds
        Push(PickleKind::kDict);
        return;
      case PickleGlobal::kEncode:
        return PushEncoded(items);
      case PickleGlobal::kReconstructor: {  // (class, base, state of the base)
        if (items.size() != 3 || NodeAt(items[0]).kind != PickleKind::kGlobal) {
          Fail("reconstructs something that is no known class");
        }
        const PickleGlobal type = NodeAt(items[0]).global;
        PushObject(type, arguments);
        return;
      }
      default:
        return PushObject(global, arguments);
    }
  }
  void PushObject(PickleGlobal global, uint32_t arguments) {
    PickleNode& object = Push(PickleKind::kObject);
    object.global = global;
    object.items.push_back(arguments);
  }
  // _codecs.encode(text, "latin1"): bytes, each written as the code point of that value.
  void PushEncoded(const std::vector<uint32_t>& items) {
    if (items.empty() || items.size() > 2 || NodeAt(items[0]).kind != PickleKind::kText ||
        (items.size() == 2 && NodeAt(items[1]).text != "latin1")) {
      Refuse("a string encoded as other than latin1");
    }
    std::string latin;
    const std::string_view text = NodeAt(items[0]).text;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte < 0x80) {
        latin += text[i];
      } else if ((byte == 0xC2 || byte == 0xC3) && i + 1 < text.size() &&
                 (static_cast<unsigned char>(text[i + 1]) & 0xC0) == 0x80) {
        const auto next = static_cast<unsigned char>(text[++i]);
        latin += static_cast<char>(((byte & 3U) << 6) | (next & 0x3FU));
      } else {
        Fail("encodes a string that does not fit latin1");
      }
    }
    encoded_bytes_ += latin.size();
    if (encoded_bytes_ > kMaxPickleBytes) {
      throw Error(ErrorCode::kResourceExhausted,
                  pickle_.context_ + ": the pickle encodes the same strings over and over");
    }
    PushString(PickleKind::kBytes, pickle_.owned_.emplace_back(std::move(latin)));
  }
  void Build() {
    const uint32_t state = Pop();
    PickleNode& object = NodeAt(Top());
    if (object.kind != PickleKind::kObject || object.items.size() != 1) {
      Fail("gives a state to a value that takes none");
    }
    object.items.push_back(state);
  }

  // Executes one opcode; false at the pickle's end. Grouped as in Python's pickletools.
  bool Step();
  bool StepContainer(unsigned char opcode);
  bool StepScalar(unsigned char opcode);

  Pickle& pickle_;
  std::string_view bytes_;
  size_t position_ = 0;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> popped_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  uint64_t encoded_bytes_ = 0;
};

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
      PushInt(Read<int32_t>());
      return true;
    case 'K':
      PushInt(Read<uint8_t>());
      return true;
    case 'M':
      PushInt(Read<uint16_t>());
      return true;
    case 0x8A:  // LONG1, LONG4
      ReadBinaryLong(Read<uint8_t>());
      return true;
    case 0x8B:
      ReadBinaryLong(Read<uint32_t>());
      return true;
    case 'F': {
      const auto value = Parse<double>(TakeLine());
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
      PushString(PickleKind::kBytes, Take(Read<uint8_t>()));
      return true;
    case 'T':  // BINSTRING (its length is signed: what is negative is cut short), BINBYTES
    case 'B':
      PushString(PickleKind::kBytes, Take(Read<uint32_t>()));
      return true;
    case 0x8E:  // BINBYTES8, BYTEARRAY8
    case 0x96:
      PushString(PickleKind::kBytes, Take(Read<uint64_t>()));
      return true;
    case 'X':  // BINUNICODE and its short and long forms
      PushString(PickleKind::kText, Take(Read<uint32_t>()));
      return true;
    case 0x8C:
      PushString(PickleKind::kText, Take(Read<uint8_t>()));
      return true;
    case 0x8D:
      PushString(PickleKind::kText, Take(Read<uint64_t>()));
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
  const auto opcode = Read<unsigned char>();
  if (StepScalar(opcode) || StepContainer(opcode)) return true;
  switch (opcode) {
    case '.':
      return false;
    case 0x80:  // PROTO
      if (Read<uint8_t>() > 5) Refuse("a pickle of a protocol above 5");
      return true;
    case 0x95:  // FRAME: its length only helps readers of streams
      if (Read<uint64_t>() > bytes_.size() - position_) Fail("is cut short");
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
      Get(Parse<uint64_t>(TakeLine()));
      return true;
    case 'h':
      Get(Read<uint8_t>());
      return true;
    case 'j':
      Get(Read<uint32_t>());
      return true;
    case 'p':
      Put(Parse<uint64_t>(TakeLine()));
      return true;
    case 'q':
      Put(Read<uint8_t>());
      return true;
    case 'r':
      Put(Read<uint32_t>());
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
      Refuse("the pickle's opcode " + std::to_string(opcode));
  }
}

Pickle::Pickle(std::string_view bytes, std::string_view context) : context_(context) {
  if (bytes.size() > kMaxPickleBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                context_ + ": a pickle of more than " + std::to_string(kMaxPickleBytes) + " bytes");
  }
  PickleMachine(*this, bytes).Run();
}

void Pickle::Fail(std::string_view what, std::string_view problem) const {
  throw Error(ErrorCode::kCorruptData,
              context_ + ": " + std::string(what) + " " + std::string(problem));
}

}  // namespace offpath::graph
