#include "offpath/graph/import/pickle_machine.h"

#include <string>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/import/pickle_globals.h"
#include "offpath/graph/import/pickle_strings.h"

namespace offpath::graph {

void PickleMachine::Run() {
  while (Step()) {
  }
  if (input_.left() != 0) input_.Fail("is followed by unexpected bytes");
  if (stack_.size() != 1 || !marks_.empty()) input_.Fail("does not leave exactly one value");
  pickle_.root_ = stack_[0];
}

PickleNode& PickleMachine::Push(PickleKind kind) {
  if (pickle_.nodes_.size() >= kMaxPickleNodes) {
    throw Error(ErrorCode::kResourceExhausted, pickle_.context_ + ": the pickle holds more than " +
                                                   std::to_string(kMaxPickleNodes) + " values");
  }
  stack_.push_back(static_cast<uint32_t>(pickle_.nodes_.size()));
  PickleNode& node = pickle_.nodes_.emplace_back();
  node.kind = kind;
  return node;
}

uint32_t PickleMachine::Pop() {
  if (stack_.size() <= Floor()) input_.Fail("takes a value that is not there");
  const uint32_t id = stack_.back();
  stack_.pop_back();
  return id;
}

uint32_t PickleMachine::Top() const {
  if (stack_.size() <= Floor()) input_.Fail("takes a value that is not there");
  return stack_.back();
}

const std::vector<uint32_t>& PickleMachine::PopToMark() {
  if (marks_.empty()) input_.Fail("takes a mark that is not there");
  popped_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return popped_;
}

void PickleMachine::PushTuple(size_t count) {
  popped_.resize(count);
  for (size_t i = count; i-- > 0;) popped_[i] = Pop();
  Push(PickleKind::kTuple).items.assign(popped_.begin(), popped_.end());
}

void PickleMachine::AppendTo(PickleKind kind, const std::vector<uint32_t>& values) {
  PickleNode& target = NodeAt(Top());
  if (target.kind != kind) input_.Fail("appends to a value that cannot take it");
  if (kind == PickleKind::kDict && values.size() % 2 != 0) input_.Fail("has a key without a value");
  target.items.insert(target.items.end(), values.begin(), values.end());
}

void PickleMachine::AppendPair() {
  const uint32_t value = Pop();
  const uint32_t key = Pop();
  AppendTo(PickleKind::kDict, {key, value});
}

void PickleMachine::Get(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) input_.Fail("refers to a value that it has not stored");
  stack_.push_back(found->second);
}

void PickleMachine::PushGlobal(std::string_view module, std::string_view name) {
  if (const auto global = FindPickleGlobal(module, name)) {
    Push(PickleKind::kGlobal).global = *global;
    return;
  }
  input_.Refuse("the pickle names " + PrintableName(module) + "." + PrintableName(name) +
                ", which is not executed");
}

void PickleMachine::ReadGlobal() {
  const std::string_view module = input_.TakeLine();
  PushGlobal(module, input_.TakeLine());
}

void PickleMachine::StackGlobal() {
  const PickleNode& name = NodeAt(Pop());
  const PickleNode& module = NodeAt(Pop());
  if (name.kind != PickleKind::kText || module.kind != PickleKind::kText) {
    input_.Fail("names a global by something that is no string");
  }
  PushGlobal(module.text, name.text);
}

void PickleMachine::Call() {
  const uint32_t arguments = Pop();
  const uint32_t callable = Pop();
  if (NodeAt(callable).kind != PickleKind::kGlobal ||
      NodeAt(arguments).kind != PickleKind::kTuple) {
    input_.Fail("calls something that is no known global, or not with a tuple");
  }
  const PickleGlobal global = NodeAt(callable).global;
  const std::vector<uint32_t>& items = NodeAt(arguments).items;
  switch (global) {
    case PickleGlobal::kList:
    case PickleGlobal::kDict:
      if (!items.empty()) input_.Refuse("a list or dict made from another value");
      Push(global == PickleGlobal::kList ? PickleKind::kList : PickleKind::kDict);
      return;
    case PickleGlobal::kDefaultDict:  // its factory plays no part in what it holds
      Push(PickleKind::kDict);
      return;
    case PickleGlobal::kEncode:
      return PushEncoded(items);
    case PickleGlobal::kReconstructor: {  // (class, base, state of the base)
      if (items.size() != 3 || NodeAt(items[0]).kind != PickleKind::kGlobal) {
        input_.Fail("reconstructs something that is no known class");
      }
      const PickleGlobal type = NodeAt(items[0]).global;
      PushObject(type, arguments);
      return;
    }
    default:
      return PushObject(global, arguments);
  }
}

void PickleMachine::PushObject(PickleGlobal global, uint32_t arguments) {
  PickleNode& object = Push(PickleKind::kObject);
  object.global = global;
  object.items.push_back(arguments);
}

void PickleMachine::PushEncoded(const std::vector<uint32_t>& items) {
  if (items.empty() || items.size() > 2 || NodeAt(items[0]).kind != PickleKind::kText ||
      (items.size() == 2 && NodeAt(items[1]).text != "latin1")) {
    input_.Refuse("a string encoded as other than latin1");
  }
  std::string latin = Latin1OfUtf8(NodeAt(items[0]).text, input_);
  encoded_bytes_ += latin.size();
  if (encoded_bytes_ > kMaxPickleBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                pickle_.context_ + ": the pickle encodes the same strings over and over");
  }
  PushString(PickleKind::kBytes, pickle_.owned_.emplace_back(std::move(latin)));
}

void PickleMachine::Build() {
  const uint32_t state = Pop();
  PickleNode& object = NodeAt(Top());
  if (object.kind != PickleKind::kObject || object.items.size() != 1) {
    input_.Fail("gives a state to a value that takes none");
  }
  object.items.push_back(state);
}

}  // namespace offpath::graph
