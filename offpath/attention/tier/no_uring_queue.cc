// In place of uring_queue.cc where the build has no liburing.
#include "offpath/attention/tier/read_queue.h"
#include "offpath/base/error.h"

namespace offpath::attention {

std::unique_ptr<ReadQueue> MakeUringQueue(int /*fd*/, size_t /*depth*/) {
  throw Error(ErrorCode::kUnsupported, "this build has no io_uring (liburing was not there)");
}

}  // namespace offpath::attention
