// The Python module tutti_torch._C: see tutti_torch/__init__.py.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "compat/torch/group.hpp"
#include "compat/torch/memory.hpp"
#ifdef TUTTI_TORCH_SYMMETRIC_MEMORY
#include "compat/torch/symmetric_memory.hpp"
#endif
#include "compat/torch/window.hpp"
#include "tutti/check.hpp"
#include "tutti/tutti.h"

namespace py = pybind11;
using tutti_torch::Group;

namespace {

/// Errors of making a group, as those of its calls.
template <class Function>
auto translated(const Function& function) {
  try {
    return function();
  } catch (...) {
    std::rethrow_exception(tutti_torch::as_torch_error());
  }
}

c10::intrusive_ptr<Group> make_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                     const std::string& name, std::chrono::milliseconds timeout) {
  return translated([&] { return c10::make_intrusive<Group>(store, rank, size, name, timeout); });
}

Group& group_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  auto* const group = dynamic_cast<Group*>(backend.get());
  if (group == nullptr)
    throw py::type_error("the process group's backend is '" + backend->getBackendName() + "', not 'tutti'");
  return *group;
}

py::dict last_call(const c10::intrusive_ptr<c10d::Backend>& backend) {
  Group& group = group_of(backend);
  const tuttiCallInfo info = translated([&] {
    const py::gil_scoped_release release;
    return group.last_call();
  });
  py::dict told;
  told["algorithm"] = info.algorithm;
  told["transport"] = info.transport;
  told["delivery"] = info.delivery;
  told["method"] = info.method;
  told["window"] = info.window;
  told["width"] = info.width;
  told["model"] = info.model;
  return told;
}

at::Tensor empty(const std::vector<int64_t>& sizes, const py::object& type) {
  const auto scalar = reinterpret_cast<THPDtype*>(type.ptr())->scalar_type;
  return translated([&] { return tutti_torch::mapped_tensor(sizes, at::TensorOptions().dtype(scalar)); });
}

py::tuple mapped_now() {
  const auto now = tutti_torch::mapped_now();
  return py::make_tuple(now.blocks, now.bytes);
}

}  // namespace

/// As torch's own backends, which programs may make without a process group: ProcessGroupGloo(store, rank, size, …).
void define_group(py::module_& module) {
  using Milliseconds = std::chrono::milliseconds;
  const py::object backend = py::module_::import("torch._C._distributed_c10d").attr("Backend");
  py::class_<Group, c10::intrusive_ptr<Group>>(module, "ProcessGroupTutti", backend)
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout) {
             return make_group(store, rank, size, "an unnamed group", timeout);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout") = kBackendDefaultTimeout,
           py::call_guard<py::gil_scoped_release>())
      .def("_set_default_timeout", [](Group& group, Milliseconds timeout) { group.setTimeout(timeout); })
      .def_property_readonly("options", &Group::getBackendOptions);
}

/// tutti_torch.Window.
void define_window(py::module_& module) {
  using tutti_torch::Window;
  const auto peer = py::arg("peer");
  const auto offset = py::arg("offset") = 0;
  const auto signal = py::arg("signal") = 0;
  py::class_<Window, std::shared_ptr<Window>>(module, "Window", "docs/pytorch.md says how to use it.")
      .def_property_readonly("tensor", &Window::part, "This rank's part.")
      .def("size", &Window::size, peer, "Elements of the peer's part.")
      .def("put", &Window::put, py::arg("tensor"), peer, offset, "Writes the tensor into the peer's part.")
      .def("put_signal", &Window::put_signal, py::arg("tensor"), peer, offset, signal, "put, then signal.")
      .def("get", &Window::get, py::arg("into"), peer, offset, "Reads the peer's part into the tensor.")
      .def("signal", &Window::signal, peer, signal, "Sends a signal, after all that this rank has put.")
      .def("wait_signal", &Window::wait_signal, peer, signal, py::arg("count") = 1,
           "Waits for so many more signals of the peer.")
      .def("atomic_add", &Window::atomic_add, py::arg("value"), peer, offset,
           "Adds to an int64 of the peer's part, and returns what it was.")
      .def("atomic_compare_swap", &Window::atomic_compare_swap, py::arg("expected"), py::arg("desired"), peer, offset,
           "Replaces an int64 of the peer's part if it is as expected, and returns what it was.")
      .def("flush", &Window::flush, py::arg("peer") = TUTTI_ALL_PEERS, "Returns when what was put is in place.")
      .def("barrier", &Window::barrier, "flush, then a barrier of the group.")
      .def("close", &Window::close, "Ends it, on all ranks.")
      .def("__enter__", [](const std::shared_ptr<Window>& window) { return window; })
      .def("__exit__", [](Window& window, const py::object& type, const py::object&, const py::object&) {
        if (type.is_none()) window.close();  // after an exception other ranks may not come
      });
  module.def("window", [](const c10::intrusive_ptr<c10d::Backend>& backend, const at::Tensor& tensor) {
    return Window::make(c10::intrusive_ptr<Group>::reclaim_copy(&group_of(backend)), tensor);
  });
}

PYBIND11_MODULE(_C, module) {
  define_group(module);
  define_window(module);
  module.def("make_group", &make_group);
  module.def("end_all", &tutti_torch::end_all);
  module.def("version", &tuttiGetVersion);
  module.def("set_default", [](const std::string& name, const std::string& value) {
    translated([&] { tutti::check(tuttiSetDefault(name.c_str(), value.c_str())); });
  });
  module.def("empty", &empty);
#ifdef TUTTI_TORCH_SYMMETRIC_MEMORY
  tutti_torch::serve_symmetric_memory();
  module.def("kept", &tutti_torch::kept);
#endif
  module.def("map_allocations", &tutti_torch::map_allocations);
  module.def("mapped_now", &mapped_now);
  module.def("last_call", &last_call);
  module.def("deliveries",
             [](const c10::intrusive_ptr<c10d::Backend>& backend) { return group_of(backend).deliveries(); });
  module.def("count_deliveries",
             [](const c10::intrusive_ptr<c10d::Backend>& backend, bool on) { group_of(backend).count_deliveries(on); });
}
