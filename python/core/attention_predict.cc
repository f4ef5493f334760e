#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "offpath/attention/predict/ema.h"
#include "offpath/attention/predict/fit.h"
#include "offpath/attention/predict/query_regression.h"
#include "offpath/base/error.h"
#include "python/core/arrays.h"
#include "python/core/attention_bindings.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using attention::EmaParameters;

class EmaHandle {
 public:
  EmaHandle(float alpha, float beta, float gamma)
      : parameters_{.alpha = alpha, .beta = beta, .gamma = gamma} {
    CheckEma(parameters_);
  }
  void Observe(const Floats& scores) { state_.Observe(parameters_, SpanOf(scores)); }
  void Truncate(size_t blocks) { state_.Truncate(blocks); }
  std::vector<float> Predictions() const {
    return {state_.predictions().begin(), state_.predictions().end()};
  }

 private:
  EmaParameters parameters_;
  attention::EmaState state_;
};

using Blocks = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::tuple<float, float, float, double> Fit(const std::vector<std::pair<Floats, Blocks>>& history,
                                            size_t predicted) {
  std::vector<attention::ScoredStep> steps;
  steps.reserve(history.size());
  for (const auto& [scores, selected] : history) {
    steps.push_back({.scores = {scores.data(), scores.data() + scores.size()},
                     .selected = {selected.data(), selected.data() + selected.size()}});
  }
  const nb::gil_scoped_release released;
  const attention::EmaFit fit = attention::FitEma(steps, predicted);
  return {fit.parameters.alpha, fit.parameters.beta, fit.parameters.gamma, fit.coverage};
}

}  // namespace

void BindPrediction(nb::module_& m) {
  nb::class_<EmaHandle>(m, "Ema")
      .def(nb::init<float, float, float>(), nb::arg("alpha"), nb::arg("beta"), nb::arg("gamma"))
      .def("observe", &EmaHandle::Observe, nb::arg("scores"))
      .def("truncate", &EmaHandle::Truncate, nb::arg("blocks"))
      .def("predict", [](const EmaHandle& self) { return ArrayOf(self.Predictions()); });
  nb::class_<attention::QueryRegression>(m, "QueryRegression")
      .def(
          "__init__",
          [](attention::QueryRegression* self, size_t steps) {
            if (steps == 0 || steps > 256) {
              throw Error(ErrorCode::kInvalidArgument,
                          "a regression over " + std::to_string(steps) + " steps: 1 to 256");
            }
            new (self) attention::QueryRegression(steps);
          },
          nb::arg("steps"))
      .def(
          "observe",
          [](attention::QueryRegression& self, const Floats& query, const Floats& scores) {
            self.Observe(SpanOf(query), SpanOf(scores));
          },
          nb::arg("query"), nb::arg("scores"))
      .def("truncate", &attention::QueryRegression::Truncate, nb::arg("blocks"))
      .def(
          "predict",
          [](const attention::QueryRegression& self, const Floats& query) {
            std::vector<float> scores;
            self.Predict(SpanOf(query), scores);
            return ArrayOf(std::move(scores));
          },
          nb::arg("query"));
  m.def("fit_ema", &Fit, nb::arg("history"), nb::arg("predicted"));
}

}  // namespace offpath::python
