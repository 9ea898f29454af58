#include "compat/torch/checks.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include <functional>
#include <optional>

namespace tutti_torch {
namespace {

using Tensors = std::vector<at::Tensor>;

/// As torch's checks take it.
std::function<void(const std::string&)> refusing(const char* call) {
  return [call](const std::string& text) { refuse(call, text); };
}

template <class... Parts>
[[noreturn]] void not_supported(const char* call, const Parts&... parts) {
  C10_THROW_ERROR(NotImplementedError, c10::str(call, ": ", parts...));
}

const at::Tensor& only(const char* call, const Tensors& tensors, const char* of) {
  if (tensors.size() == 1) return tensors.front();
  c10d::assertLayoutMatch(refusing(call), tensors);
  c10d::assertTypeAndSizesMatch(refusing(call), tensors);
  refuse(call, c10::str("requires a single-element ", of, "tensor list, and this one has ", tensors.size(),
                        ": a process has one device. Expecting one tensor only but got multiple"));
}

}  // namespace

void refuse(const char* call, const std::string& text) { C10_THROW_ERROR(ValueError, std::string(call) + ": " + text); }

void check_tensor(const char* call, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(call, "a tensor is undefined");
  const bool served = tensor.device().is_cpu() || tensor.device().is_cuda();
  if (served && tensor.layout() == at::kStrided) return;
  if (!served) {
    not_supported(call, "unsupported device type ", tensor.device().type(), ": tutti_torch serves cpu and cuda");
  }
  not_supported(call, "only supports dense tensors; unsupported layout ", tensor.layout(),
                ": call to_dense() first. (all_reduce takes sparse COO tensors too.)");
}

at::Device device_of(const char* call, const Tensors& inputs, const Tensors& outputs) {
  std::optional<at::Device> device;
  for (const Tensors* tensors : {&inputs, &outputs}) {
    for (const at::Tensor& tensor : *tensors) {
      if (!device) device = tensor.device();
      if (*device == tensor.device()) continue;
      refuse(call, c10::str("the call's tensors are on ", *device, " and on ", tensor.device(),
                            ": they must be on one device"));
    }
  }
  return device.value_or(at::Device(at::kCPU));
}

void check_root(const char* call, int64_t root, int ranks) {
  if (root < 0 || root >= ranks) refuse(call, c10::str("invalid root rank: ", root, ", and there are ", ranks));
}

void check_root(const char* call, int64_t root, int64_t root_tensor, int ranks, size_t tensors) {
  check_root(call, root, ranks);
  c10d::assertRootTensor(refusing(call), root_tensor, static_cast<int64_t>(tensors));
}

const at::Tensor& only(const char* call, const Tensors& tensors) {
  if (tensors.size() == 1) return tensors.front();
  c10d::assertNonEmpty(refusing(call), tensors);
  return only(call, tensors, "");
}

const at::Tensor& only_input(const char* call, const Tensors& tensors) {
  if (tensors.empty())
    refuse(call, "requires non-empty input tensor list, requires a single-element input tensor list");
  return only(call, tensors, "input ");
}

const at::Tensor& only_output(const char* call, const Tensors& tensors) {
  if (tensors.empty()) refuse(call, "requires a single-element output tensor list");
  return only(call, tensors, "output ");
}

void check_pair(const char* call, const at::Tensor& small, const at::Tensor& large, int ranks, bool gathers) {
  check_tensor(call, small);
  check_tensor(call, large);
  if (small.scalar_type() != large.scalar_type()) {
    refuse(call, gathers ? "output tensor must have the same type as input tensor"
                         : "input tensor must be the same type as the output tensor");
  }
  if (large.numel() != small.numel() * ranks) {
    refuse(call, c10::str(gathers ? "output tensor size must be equal to world_size times input tensor size"
                                  : "input tensor must be the same size as output size times world size",
                          ": ", large.numel(), " elements, and ", ranks, " ranks have ", small.numel(), " each"));
  }
}

void check_list(const char* call, const Tensors& list, const at::Tensor& like, int ranks, int rank) {
  check_tensor(call, like);
  if (list.size() != static_cast<size_t>(ranks)) {
    refuse(call, c10::str("invalid tensor list: it has ", list.size(), " tensors, and one for each of ", ranks,
                          " ranks is needed"));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    check_tensor(call, list[i]);
    if (list[i].scalar_type() != like.scalar_type()) {
      c10d::assertTypeMatch(refusing(call), like.options(), list, i);
    }
  }
  if (list[static_cast<size_t>(rank)].numel() != like.numel()) {
    c10d::assertSizesMatch(refusing(call), like.sizes(), list, static_cast<size_t>(rank));
  }
}

}  // namespace tutti_torch
