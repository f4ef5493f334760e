// Arrays that Python sees: views of C++ memory that keep its owner alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace offpath::python {

// An array of no framework: numpy.asarray and torch.from_dlpack take it without a copy.
template <typename T>
using Array = nanobind::ndarray<nanobind::array_api, T, nanobind::device::cpu>;

// Arguments of bound functions: contiguous, converted by the caller.
using Ids =
    nanobind::ndarray<const int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Floats =
    nanobind::ndarray<const float, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Rows =
    nanobind::ndarray<const float, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
Array<T> ViewOf(T* data, std::initializer_list<size_t> shape, nanobind::handle owner) {
  return Array<T>(data, shape.size(), shape.begin(), owner);
}

// Hands a vector over to Python, as an array of that shape.
template <typename T>
Array<T> ArrayOf(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto held = std::make_unique<std::vector<T>>(std::move(values));
  T* data = held->data();
  const nanobind::capsule owner(held.release(),
                                [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return ViewOf(data, shape, owner);
}
template <typename T>
Array<T> ArrayOf(std::vector<T> values) {
  const size_t size = values.size();
  return ArrayOf(std::move(values), {size});
}

inline std::span<const int64_t> SpanOf(const Ids& ids) { return {ids.data(), ids.size()}; }
inline std::span<const float> SpanOf(const Floats& values) {
  return {values.data(), values.size()};
}
inline std::span<const float> SpanOf(const Rows& rows) { return {rows.data(), rows.size()}; }

}  // namespace offpath::python
