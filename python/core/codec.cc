#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "offpath/base/buffer.h"
#include "offpath/base/error.h"
#include "offpath/codec/rows.h"
#include "python/core/arrays.h"
#include "python/core/codec_bindings.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

codec::RowFormat FormatOf(const std::string& type, bool stochastic, uint32_t block, uint64_t seed) {
  const codec::RowFormat format{
      .type = codec::ParseRowType(type),
      .rounding = stochastic ? codec::Rounding::kStochastic : codec::Rounding::kNearestEven,
      .block = block,
      .seed = seed};
  codec::CheckFormat(format);
  return format;
}

template <typename T>
Array<T> Adopt(Buffer<T> buffer, std::initializer_list<size_t> shape) {
  auto* held = new Buffer<T>(std::move(buffer));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
  return ViewOf(held->data(), shape, owner);
}

Array<uint8_t> Encode(const Rows& rows, const std::string& type, bool stochastic, uint32_t block,
                      uint64_t seed, const std::optional<Keys>& keys) {
  const codec::RowFormat format = FormatOf(type, stochastic, block, seed);
  const size_t count = rows.shape(0);
  const size_t dim = rows.shape(1);
  if (keys && keys->size() != count) {
    throw Error(ErrorCode::kInvalidArgument, "there are " + std::to_string(keys->size()) +
                                                 " row keys for " + std::to_string(count) +
                                                 " rows");
  }
  const size_t row_bytes = codec::EncodedRowBytes(format, dim);
  Buffer<uint8_t> out(count * row_bytes);
  size_t bad = codec::kAllFinite;
  {
    const nb::gil_scoped_release released;
    bad = codec::EncodeRows(format,
                            {.table = rows.data(),
                             .stride = dim,
                             .dim = dim,
                             .row_keys = keys ? keys->data() : nullptr,
                             .rows = count},
                            reinterpret_cast<std::byte*>(out.data()));
  }
  if (bad != codec::kAllFinite) {
    throw Error(ErrorCode::kInvalidArgument, "row " + std::to_string(bad) +
                                                 " is not finite, which " + type +
                                                 " cannot carry: use f32, f16 or bf16");
  }
  return Adopt(std::move(out), {count, row_bytes});
}

Array<float> Decode(const Bytes& bytes, size_t dim, const std::string& type, uint32_t block) {
  const codec::RowFormat format = FormatOf(type, false, block, 0);
  const size_t count = bytes.shape(0);
  const size_t row_bytes = codec::EncodedRowBytes(format, dim);
  if (bytes.shape(1) != row_bytes) {
    throw Error(ErrorCode::kInvalidArgument, "encoded rows have " + std::to_string(bytes.shape(1)) +
                                                 " bytes, but " + std::to_string(dim) +
                                                 " columns in " + type + " take " +
                                                 std::to_string(row_bytes));
  }
  Buffer<float> out(count * dim);
  {
    const nb::gil_scoped_release released;
    codec::DecodeRows(format, reinterpret_cast<const std::byte*>(bytes.data()), count, dim,
                      out.data(), dim);
  }
  return Adopt(std::move(out), {count, dim});
}

}  // namespace

void BindCodec(nb::module_& m) {
  m.def("encode_rows", &Encode, nb::arg("rows"), nb::arg("type"), nb::arg("stochastic") = false,
        nb::arg("block") = 0, nb::arg("seed") = 0, nb::arg("row_keys") = nb::none());
  m.def("decode_rows", &Decode, nb::arg("encoded"), nb::arg("dim"), nb::arg("type"),
        nb::arg("block") = 0);
  m.def(
      "encoded_row_bytes",
      [](const std::string& type, size_t dim, uint32_t block) {
        return codec::EncodedRowBytes(FormatOf(type, false, block, 0), dim);
      },
      nb::arg("type"), nb::arg("dim"), nb::arg("block") = 0);
}

}  // namespace offpath::python
