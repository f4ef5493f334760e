// offpath._core: what the Python package calls. Bindings only; each file binds one module's types.
#include <nanobind/nanobind.h>

#include "python/core/attention_bindings.h"
#include "python/core/codec_bindings.h"
#include "python/core/errors.h"
#include "python/core/graph_bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The compiled part of Offpath; use offpath.graph, offpath.attention and offpath.codec.";
  // An array that is alive when the interpreter ends keeps its batch: that is no leak.
  nanobind::set_leak_warnings(false);
  m.attr("version") = OFFPATH_VERSION;
  offpath::python::RegisterErrors();
  offpath::python::BindCodec(m);
  offpath::python::BindStore(m);
  offpath::python::BindStoreWriter(m);
  offpath::python::BindImporters(m);
  offpath::python::BindBatches(m);
  offpath::python::BindSources(m);
  offpath::python::BindKvCache(m);
  offpath::python::BindSelection(m);
  offpath::python::BindPrediction(m);
  offpath::python::BindDecoder(m);
}
