#include "compat/torch/python.hpp"

#include <Python.h>
#include <torch/csrc/utils/pybind.h>

namespace tutti_torch {

WithoutGil::WithoutGil() {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  if (state_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

void check_signals() {
  if (Py_IsInitialized() == 0 || !PyGILState_GetThisThreadState()) return;  // no thread of Python's
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace tutti_torch
