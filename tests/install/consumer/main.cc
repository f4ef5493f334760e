// Uses the installed library: encodes a row to i8 and back, and asks for a store and a memory node
// that are not there. Exit code 0 where all answer as promised.
#include <cmath>
#include <cstdio>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/codec/rows.h"
#include "offpath/graph/client/batch_stream.h"
#include "offpath/graph/store/store.h"

int main() {
  const std::vector<float> row = {1.0f, -2.0f, 0.5f, 4.0f};
  const offpath::codec::RowFormat format = {.type = offpath::codec::RowType::kI8};
  std::vector<std::byte> bytes(offpath::codec::EncodedRowBytes(format, row.size()));
  offpath::codec::EncodeInput input;
  input.table = row.data();
  input.stride = input.dim = row.size();
  input.rows = 1;
  if (offpath::codec::EncodeRows(format, input, bytes.data()) != offpath::codec::kAllFinite)
    return 1;
  std::vector<float> decoded(row.size());
  offpath::codec::DecodeRows(format, bytes.data(), 1, row.size(), decoded.data(), row.size());
  for (size_t d = 0; d < row.size(); ++d) {
    if (std::fabs(decoded[d] - row[d]) > 4.0f / 127 / 2 * 1.001f) return 1;
  }
  try {
    offpath::graph::Store::Open("no-such-store");
    return 1;
  } catch (const offpath::Error& error) {
    if (error.code() != offpath::ErrorCode::kNotFound) return 1;
    std::printf("%s\n", error.what());
  }
  try {
    offpath::graph::BatchStream stream("not an address", {});
    return 1;
  } catch (const offpath::Error& error) {
    if (error.code() != offpath::ErrorCode::kInvalidArgument) return 1;
    std::printf("%s\n", error.what());
  }
  return 0;
}
