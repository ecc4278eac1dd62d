// Weights that replace the loaded ones.
#include <fmt/format.h>
#include <future>
#include <memory>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <string>
#include <tuple>
#include <vector>

#include "engine/python/bindings/bindings.h"
#include "engine/python/bindings/process_engine.h"
#include "serval/engine.h"
#include "vm/base/error.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
// Name, array, and whether its 16-bit integers are the bits of bf16: NumPy itself has no such type.
using NamedArray = std::tuple<std::string, Array, bool>;

std::string type_name(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  const char* kind = code == nb::dlpack::dtype_code::Int       ? "int"
                     : code == nb::dlpack::dtype_code::UInt    ? "uint"
                     : code == nb::dlpack::dtype_code::Float   ? "float"
                     : code == nb::dlpack::dtype_code::Bfloat  ? "bfloat"
                     : code == nb::dlpack::dtype_code::Complex ? "complex"
                     : code == nb::dlpack::dtype_code::Bool    ? "bool"
                                                               : "unknown";
  return fmt::format("{}{}", kind, static_cast<int>(type.bits));
}

WeightType type_of(const std::string& name, nb::dlpack::dtype type, bool is_bf16) {
  if (is_bf16 || type == nb::dlpack::dtype{static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1})
    return WeightType::kBF16;
  if (type == nb::dtype<float>()) return WeightType::kF32;
  if (type == nb::dlpack::dtype{static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1})
    return WeightType::kF16;
  throw Error(ErrorKind::kUsage,
              fmt::format("weights: tensor \"{}\": type {}; supported: bfloat16, float16 and float32", name,
                          type_name(type)));
}

WeightTensor tensor_of(const NamedArray& named) {
  const auto& [name, array, is_bf16] = named;
  WeightTensor tensor{.name = name, .type = type_of(name, array.dtype(), is_bf16), .shape = {}};
  for (size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(static_cast<int64_t>(array.shape(i)));
  tensor.data = array.data();
  return tensor;
}

// Ctrl-C cancels the requests that the update waits for, and raises KeyboardInterrupt after the update.
void update_weights(const ProcessEngine& engine, const std::vector<NamedArray>& arrays, bool cancel) {
  const ProcessEngine::Call call(engine);
  const std::shared_ptr<Engine> updated = engine.get();
  std::vector<WeightTensor> tensors;
  for (const NamedArray& array : arrays) tensors.push_back(tensor_of(array));
  auto done = std::async(std::launch::async, [&] {
    updated->update_weights(tensors, cancel ? RunningRequests::kCancel : RunningRequests::kFinish);
  });
  const auto wait = [&] {
    const nb::gil_scoped_release release;
    return done.wait_for(kSignalCheck) == std::future_status::ready;
  };
  bool interrupted = false;
  while (!wait()) {
    if (interrupted || PyErr_CheckSignals() == 0) continue;
    interrupted = true;
    updated->cancel();
  }
  if (interrupted) throw nb::python_error();
  done.get();
}

}  // namespace

void add_weights(nb::module_& m) {
  m.def("update_weights", &update_weights, nb::arg("engine"), nb::arg("arrays"), nb::arg("cancel"),
        nb::sig("def update_weights(engine: Engine, arrays: list[tuple[str, object, bool]], cancel: bool) "
                "-> None"));
}

}  // namespace serval::python
