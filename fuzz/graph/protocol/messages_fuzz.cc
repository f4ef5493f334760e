// Any bytes as any message: an Error or a value that encodes and decodes again.
#include <cstdint>

#include "offpath/base/error.h"
#include "offpath/graph/protocol/messages.h"

namespace {

using namespace offpath;
using namespace offpath::graph;

template <typename Decode>
void Try(std::span<const std::byte> bytes, Decode decode) {
  try {
    const auto message = decode(bytes);
    ByteWriter writer;
    Encode(message, writer);
    decode(writer.bytes());
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 11) {
    case 0:
      Try(bytes, DecodeStoreInfo);
      break;
    case 1:
      Try(bytes, DecodeBatchPlan);
      break;
    case 2:
      Try(bytes, DecodePlanOpened);
      break;
    case 3:
      Try(bytes, DecodeBatchRequest);
      break;
    case 4:
      Try(bytes, DecodeBatchBegin);
      break;
    case 5:
      Try(bytes, DecodeBatchEnd);
      break;
    case 6:
      Try(bytes, DecodeHopRequest);
      break;
    case 7:
      Try(bytes, DecodeHopReply);
      break;
    case 8:
      Try(bytes, DecodeAdjacencyRequest);
      break;
    case 9:
      Try(bytes, DecodeRowsRequest);
      break;
    default:
      Try(bytes, DecodeSplitRequest);
      break;
  }
  return 0;
}
