// Collectives on lists of tensors, one a rank.
#include <memory>
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/convert.hpp"
#include "compat/torch/group.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

using c10d::OpType;
using tutti::check;

/// check_list, with equal lengths: for input `index` of several.
void check_equal(const char* call, const Tensors& list, const at::Tensor& input, int ranks, int rank, size_t index) {
  for (const auto& tensor : list) {
    if (tensor.numel() == input.numel()) continue;
    refuse(call, c10::str("invalid size of output tensor at index ", index, " (expected length ", input.numel(),
                          ", got ", tensor.numel(), ")"));
  }
  check_list(call, list, input, ranks, rank);
}

/// The root's list; other ranks give none.
Tensors list_of_root(const char* call, const TensorLists& lists, bool root, int ranks, bool gathers) {
  const char *const of = gathers ? "output" : "input", *const first_word = gathers ? "Output" : "Input";
  if (!root && !lists.empty()) refuse(call, c10::str("requires empty ", of, " on non-root"));
  if (!root) return {};
  if (lists.size() != 1) {
    refuse(call, c10::str("requires a single-element ", of, " list containing a list with ", ranks, " tensors."));
  }
  if (lists.front().size() != static_cast<size_t>(ranks)) {
    refuse(call, c10::str("Incorrect ", of, " list size ", lists.front().size(), ". ", first_word,
                          " list size should be ", ranks, ", same as size of the process group."));
  }
  return lists.front();
}

}  // namespace

WorkPtr Group::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  constexpr auto kCall = "all_gather";
  const at::Tensor input = only_input(kCall, inputs);
  if (outputs.size() != 1) refuse(kCall, "requires input/output tensor lists to have the same length");
  const Tensors list = outputs.front();
  if (list.size() != static_cast<size_t>(getSize())) {
    refuse(kCall,
           c10::str("invalid output tensor list at index 0 (expected length ", getSize(), ", got ", list.size(), ")"));
  }
  check_list(kCall, list, input, getSize(), getRank());
  return run(OpType::ALLGATHER, "tutti:all_gather", inputs, list, opts, [list, input](const Target& at) {
    const Elements elements = moved(input.scalar_type());
    const Packed in(at, input, Use::In);
    PackedList out(at, list, Use::Out);
    const size_t count = in.count(elements);
    if (out.even()) {
      check(tuttiAllGather(in.data(), out.data(), count, elements.type, at.comm, at.stream));
    } else {
      check(tuttiAllGatherV(in.data(), count, out.data(), out.counts(elements).data(), nullptr, elements.type, at.comm,
                            at.stream));
    }
    out.unpack();
  });
}

WorkPtr Group::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  constexpr auto kCall = "all_gather_coalesced";
  if (inputs.empty()) refuse(kCall, "requires non-empty input tensor list");
  if (outputs.size() != static_cast<size_t>(getSize())) refuse(kCall, "output lists should be equal to world size");
  TensorLists lists(inputs.size());  // lists[i][rank] ← the rank's inputs[i]
  Tensors all;
  for (const auto& of_rank : outputs) {
    if (of_rank.size() != inputs.size()) {
      refuse(kCall, c10::str("invalid output size: (expected length ", inputs.size(), ", got ", of_rank.size(), ")"));
    }
    for (size_t i = 0; i < inputs.size(); ++i) lists[i].push_back(of_rank[i]);
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  for (size_t i = 0; i < inputs.size(); ++i) check_equal(kCall, lists[i], inputs[i], getSize(), getRank(), i);
  return run(OpType::COALESCED, "tutti:all_gather", inputs, all, opts, [lists, inputs](const Target& at) {
    std::vector<Packed> in;
    std::vector<PackedList> out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.emplace_back(at, inputs[i], Use::In);
      out.emplace_back(at, lists[i], Use::Out);
    }
    grouped([&] {
      for (size_t i = 0; i < in.size(); ++i) {
        const Elements elements = moved(inputs[i].scalar_type());
        check(tuttiAllGather(in[i].data(), out[i].data(), in[i].count(elements), elements.type, at.comm, at.stream));
      }
    });
    for (auto& list : out) list.unpack();
  });
}

WorkPtr Group::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  constexpr auto kCall = "gather";
  check_root(kCall, opts.rootRank, getSize());
  const bool root = opts.rootRank == getRank();
  const at::Tensor input = only_input(kCall, inputs);
  check_tensor(kCall, input);
  const Tensors list = list_of_root(kCall, outputs, root, getSize(), true);
  if (root) check_list(kCall, list, input, getSize(), getRank());
  return run(OpType::GATHER, "tutti:gather", inputs, list, opts,
             [root, list, input, to = static_cast<int>(opts.rootRank)](const Target& at) {
               const Elements elements = moved(input.scalar_type());
               Packed in(at, input, Use::In);
               PackedList out(at, list, Use::Out);
               const std::vector<size_t> counts = out.counts(elements);
               check(tuttiGatherV(in.data(), in.count(elements), out.data(), root ? counts.data() : nullptr, nullptr,
                                  elements.type, to, at.comm, at.stream));
               out.unpack();
             });
}

WorkPtr Group::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  constexpr auto kCall = "scatter";
  check_root(kCall, opts.rootRank, getSize());
  const bool root = opts.rootRank == getRank();
  const at::Tensor output = only_output(kCall, outputs);
  check_tensor(kCall, output);
  const Tensors list = list_of_root(kCall, inputs, root, getSize(), false);
  if (root) check_list(kCall, list, output, getSize(), getRank());
  return run(OpType::SCATTER, "tutti:scatter", list, {output}, opts,
             [root, list, output, from = static_cast<int>(opts.rootRank)](const Target& at) {
               const Elements elements = moved(output.scalar_type());
               Packed out(at, output, Use::Out);
               const PackedList in(at, list, Use::In);
               const std::vector<size_t> counts = in.counts(elements);
               check(tuttiScatterV(in.data(), root ? counts.data() : nullptr, nullptr, out.data(), out.count(elements),
                                   elements.type, from, at.comm, at.stream));
               out.unpack();
             });
}

WorkPtr Group::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) {
  constexpr auto kCall = "reduce_scatter";
  const at::Tensor output = only_output(kCall, outputs);
  if (inputs.size() != 1) refuse(kCall, "requires input/output tensor lists to have the same length");
  const Tensors list = inputs.front();
  check_list(kCall, list, output, getSize(), getRank());
  const auto fold = std::make_shared<Fold>(kCall, opts.reduceOp, output);
  return run(OpType::REDUCE_SCATTER, "tutti:reduce_scatter", list, {output}, opts,
             [output, list, fold](const Target& at) {
               const Elements& elements = fold->elements();
               Packed out(at, output, Use::Out);
               const PackedList in(at, list, Use::In);
               if (in.even()) {
                 check(tuttiReduceScatter(in.data(), out.data(), out.count(elements), elements.type, fold->on(at.comm),
                                          at.comm, at.stream));
               } else {
                 check(tuttiReduceScatterV(in.data(), out.data(), in.counts(elements).data(), elements.type,
                                           fold->on(at.comm), at.comm, at.stream));
               }
               out.unpack();
             });
}

WorkPtr Group::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  constexpr auto kCall = "all_to_all";
  const auto ranks = static_cast<size_t>(getSize()), rank = static_cast<size_t>(getRank());
  if (inputs.size() != ranks) {
    refuse(kCall, c10::str("input tensor list size ", inputs.size(), " does not match world size ", ranks));
  }
  if (outputs.size() != ranks) {
    refuse(kCall, c10::str("output tensor list size ", outputs.size(), " does not match world size ", ranks));
  }
  check_list(kCall, inputs, outputs[rank], getSize(), getRank());
  check_list(kCall, outputs, inputs[rank], getSize(), getRank());
  return run(OpType::ALLTOALL, "tutti:all_to_all", inputs, outputs, opts, [outputs, inputs](const Target& at) {
    const Elements elements = moved(outputs.front().scalar_type());
    bool in_place = false;
    for (size_t i = 0; i < inputs.size(); ++i) in_place |= inputs[i].is_alias_of(outputs[i]);
    const PackedList in(at, inputs, Use::In, in_place);
    PackedList out(at, outputs, Use::Out);
    check(tuttiAllToAllV(in.data(), in.counts(elements).data(), nullptr, out.data(), out.counts(elements).data(),
                         nullptr, elements.type, at.comm, at.stream));
    out.unpack();
  });
}

}  // namespace tutti_torch
