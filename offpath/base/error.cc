#include "offpath/base/error.h"

#include <cerrno>
#include <system_error>

namespace offpath {

std::string_view ErrorCodeName(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kCorruptData:
      return "corrupt data";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string_view message)
    : std::runtime_error(std::string(ErrorCodeName(code)) + ": " + std::string(message)),
      code_(code) {}

std::string_view Error::message() const noexcept {
  return std::string_view(what()).substr(ErrorCodeName(code_).size() + 2);
}

namespace {

ErrorCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
      return ErrorCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
      return ErrorCode::kResourceExhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENOTCONN:
    case EIO:
    case EBUSY:
      return ErrorCode::kUnavailable;
    case ETIMEDOUT:
      return ErrorCode::kTimeout;
    case EACCES:
    case EPERM:
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case EEXIST:
    case EISDIR:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTEMPTY:
    case EINVAL:
      return ErrorCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

void ThrowErrno(int error_number, std::string_view what) {
  throw Error(CodeOfErrno(error_number),
              std::string(what) + ": " + std::generic_category().message(error_number));
}

}  // namespace offpath
