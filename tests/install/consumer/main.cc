// Encodes a row to i8 and back through the installed library: exit code 0 where it is near enough.
#include <cmath>
#include <cstdio>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/codec/rows.h"

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
    offpath::codec::ParseRowType("i3");
    return 1;
  } catch (const offpath::Error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}
