// Collectives on lists of tensors, one a rank.
#include <memory>
#include <utility>

#include "compat/torch/convert.hpp"
#include "compat/torch/group.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

using c10d::OpType;
using tutti::check;

void check_list(const char* call, const Tensors& list, const at::Tensor& like, int ranks) {
  check_tensor(call, like);
  demand(list.size() == static_cast<size_t>(ranks), call,
         c10::str("a list has ", list.size(), " tensors; it must have one for each of ", ranks, " ranks"));
  for (const auto& tensor : list) {
    check_tensor(call, tensor);
    demand(tensor.scalar_type() == like.scalar_type(), call, "the tensors have different types");
  }
}

void check_mine(const char* call, const Tensors& list, const at::Tensor& mine, int rank) {
  const int64_t listed = list[static_cast<size_t>(rank)].numel();
  demand(listed == mine.numel(), call,
         c10::str("tensor ", rank, " of the list has ", listed, " elements, and this rank's tensor ", mine.numel()));
}

}  // namespace

WorkPtr Group::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  constexpr auto kCall = "all_gather";
  const Tensors list = only(kCall, outputs);
  const at::Tensor input = only(kCall, inputs);
  check_list(kCall, list, input, getSize());
  check_mine(kCall, list, input, getRank());
  return run(OpType::ALLGATHER, "tutti:all_gather", list, opts.asyncOp, [this, list, input] {
    const Elements elements = moved(input.scalar_type());
    Packed in(input, Use::In);
    PackedList out(list, Use::Out);
    const size_t count = in.count(elements);
    if (out.even()) {
      check(tuttiAllGather(in.data(), out.data(), count, elements.type, comm_, nullptr));
    } else {
      check(tuttiAllGatherV(in.data(), count, out.data(), out.counts(elements).data(), nullptr, elements.type, comm_,
                            nullptr));
    }
    out.unpack();
  });
}

WorkPtr Group::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  // outputs[rank][i] ← the rank's inputs[i]
  constexpr auto kCall = "all_gather_coalesced";
  demand(outputs.size() == static_cast<size_t>(getSize()), kCall, "one list of outputs for each rank");
  std::vector<WorkPtr> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorLists lists(1);
    for (const auto& of_rank : outputs) {
      demand(of_rank.size() == inputs.size(), kCall, "each list of outputs has as many tensors as there are inputs");
      lists[0].push_back(of_rank[i]);
    }
    Tensors one{inputs[i]};
    parts.push_back(allgather(lists, one, opts));
  }
  return c10::make_intrusive<CoalescedWork>(getRank(), std::move(parts));
}

WorkPtr Group::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  constexpr auto kCall = "gather";
  check_root(kCall, opts.rootRank);
  const bool root = opts.rootRank == getRank();
  const at::Tensor input = only(kCall, inputs);
  check_tensor(kCall, input);
  const Tensors list = root ? only(kCall, outputs) : Tensors{};
  if (root) check_list(kCall, list, input, getSize());
  if (root) check_mine(kCall, list, input, getRank());
  return run(OpType::GATHER, "tutti:gather", list, opts.asyncOp,
             [this, root, list, input, to = static_cast<int>(opts.rootRank)] {
               const Elements elements = moved(input.scalar_type());
               Packed in(input, Use::In);
               PackedList out(list, Use::Out);
               const std::vector<size_t> counts = out.counts(elements);
               check(tuttiGatherV(in.data(), in.count(elements), out.data(), root ? counts.data() : nullptr, nullptr,
                                  elements.type, to, comm_, nullptr));
               out.unpack();
             });
}

WorkPtr Group::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  constexpr auto kCall = "scatter";
  check_root(kCall, opts.rootRank);
  const bool root = opts.rootRank == getRank();
  const at::Tensor output = only(kCall, outputs);
  check_tensor(kCall, output);
  const Tensors list = root ? only(kCall, inputs) : Tensors{};
  if (root) check_list(kCall, list, output, getSize());
  if (root) check_mine(kCall, list, output, getRank());
  return run(OpType::SCATTER, "tutti:scatter", {output}, opts.asyncOp,
             [this, root, list, output, from = static_cast<int>(opts.rootRank)] {
               const Elements elements = moved(output.scalar_type());
               Packed out(output, Use::Out);
               const PackedList in(list, Use::In);
               const std::vector<size_t> counts = in.counts(elements);
               check(tuttiScatterV(in.data(), root ? counts.data() : nullptr, nullptr, out.data(), out.count(elements),
                                   elements.type, from, comm_, nullptr));
               out.unpack();
             });
}

WorkPtr Group::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) {
  constexpr auto kCall = "reduce_scatter";
  const at::Tensor output = only(kCall, outputs);
  const Tensors list = only(kCall, inputs);
  check_list(kCall, list, output, getSize());
  check_mine(kCall, list, output, getRank());
  const auto fold = std::make_shared<Fold>(kCall, opts.reduceOp, output.scalar_type());
  return run(OpType::REDUCE_SCATTER, "tutti:reduce_scatter", {output}, opts.asyncOp, [this, output, list, fold] {
    const Elements& elements = fold->elements();
    Packed out(output, Use::Out);
    const PackedList in(list, Use::In);
    if (in.even()) {
      check(tuttiReduceScatter(in.data(), out.data(), out.count(elements), elements.type, fold->on(comm_), comm_,
                               nullptr));
    } else {
      check(tuttiReduceScatterV(in.data(), out.data(), in.counts(elements).data(), elements.type, fold->on(comm_),
                                comm_, nullptr));
    }
    out.unpack();
  });
}

WorkPtr Group::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  constexpr auto kCall = "all_to_all";
  demand(!inputs.empty() && !outputs.empty(), kCall, "one tensor for each rank");
  check_list(kCall, inputs, outputs.front(), getSize());
  check_list(kCall, outputs, outputs.front(), getSize());
  check_mine(kCall, outputs, inputs[static_cast<size_t>(getRank())], getRank());
  return run(OpType::ALLTOALL, "tutti:all_to_all", outputs, opts.asyncOp, [this, outputs, inputs] {
    const Elements elements = moved(outputs.front().scalar_type());
    const PackedList in(inputs, Use::In);
    PackedList out(outputs, Use::Out);
    check(tuttiAllToAllV(in.data(), in.counts(elements).data(), nullptr, out.data(), out.counts(elements).data(),
                         nullptr, elements.type, comm_, nullptr));
    out.unpack();
  });
}

}  // namespace tutti_torch
