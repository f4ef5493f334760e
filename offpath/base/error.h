// The one exception type that crosses a library boundary.
//
// A message names the file, field or peer that failed and the way out. Hot paths do not throw: they
// are validated before entry, and report at the batch's end.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace offpath {

enum class ErrorCode {
  kInvalidArgument,    // the caller asked for something that can never work: fix the call
  kCorruptData,        // a file or a frame contradicts itself, its manifest or its checksum
  kNotFound,           // the named file, field, node type or plan does not exist
  kUnavailable,        // a peer or a device is gone; trying again later may work
  kTimeout,            // a deadline passed; the message names what was waited for
  kResourceExhausted,  // memory, disk space, descriptors or a stated cap
  kUnsupported,        // valid, but not in this version or not in this build
  kInternal,           // a promise of this library is broken: a bug
};

// "invalid argument", "corrupt data", ... as printed before the message.
std::string_view ErrorCodeName(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  // what() becomes "<code name>: <message>".
  Error(ErrorCode code, std::string_view message);

  ErrorCode code() const noexcept { return code_; }
  // The message without the code's name, as it travels in a frame.
  std::string_view message() const noexcept;

 private:
  ErrorCode code_;
};

// Throws the Error that fits an errno value: ENOSPC and EMFILE are kResourceExhausted, ENOENT is
// kNotFound, and so on. `what` says what was tried and on which file or peer.
[[noreturn]] void ThrowErrno(int error_number, std::string_view what);

}  // namespace offpath
