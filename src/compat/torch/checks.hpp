// What the arguments of calls must be. Texts hold torch's own words, by which programs tell errors apart.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace tutti_torch {

/// Throws ValueError: "all_reduce: …".
[[noreturn]] void refuse(const char* call, const std::string& text);
/// Refuses unless `holds`.
inline void demand(bool holds, const char* call, const char* text) {
  if (!holds) refuse(call, text);
}

/// A dense tensor in memory of the host or of a GPU; else it throws NotImplementedError, which is a RuntimeError.
void check_tensor(const char* call, const at::Tensor& tensor);
/// Where all tensors of a call are. Without tensors: the host.
at::Device device_of(const char* call, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);
/// A root, and the tensor of its list (c10d's interface has lists for several devices of one process).
void check_root(const char* call, int64_t root, int ranks);
void check_root(const char* call, int64_t root, int64_t root_tensor, int ranks, size_t tensors);
/// The only tensor of a list.
const at::Tensor& only(const char* call, const std::vector<at::Tensor>& tensors);
const at::Tensor& only_input(const char* call, const std::vector<at::Tensor>& tensors);
const at::Tensor& only_output(const char* call, const std::vector<at::Tensor>& tensors);

/// `large` has `small` once for each rank. `gathers`: `large` is the output, else the input.
void check_pair(const char* call, const at::Tensor& small, const at::Tensor& large, int ranks, bool gathers);
/// One dense tensor of `like`'s type for each rank, of any lengths but this rank's, which is that of `like`.
void check_list(const char* call, const std::vector<at::Tensor>& list, const at::Tensor& like, int ranks, int rank);

}  // namespace tutti_torch
