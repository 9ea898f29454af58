// Collectives on tensors. Each checks its arguments here and runs as a blocking call on the group's stream.
#include <torch/csrc/distributed/c10d/Utils.hpp>

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

void check_pairs(const char* call, const Tensors& small, const Tensors& large, int ranks, bool gathers) {
  demand(small.size() == large.size(), call, "requires input/output tensor lists to have the same length");
  for (size_t i = 0; i < small.size(); ++i) check_pair(call, small[i], large[i], ranks, gathers);
}

}  // namespace

WorkPtr Group::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  constexpr auto kCall = "broadcast";
  check_root(kCall, opts.rootRank, opts.rootTensor, getSize(), tensors.size());
  const at::Tensor tensor = only(kCall, tensors);
  check_tensor(kCall, tensor);
  return run(
      OpType::BROADCAST, "tutti:broadcast", tensors, tensors, opts,
      [this, tensor, root = static_cast<int>(opts.rootRank)](const Target& at) {
        const Elements elements = moved(tensor.scalar_type());
        Packed data(at, tensor, root == getRank() ? Use::In : Use::Out);
        check(tuttiBroadcast(data.data(), data.data(), data.count(elements), elements.type, root, at.comm, at.stream));
        if (root != getRank()) data.unpack();
      });
}

WorkPtr Group::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  constexpr auto kCall = "all_reduce";
  const at::Tensor tensor = only(kCall, tensors);
  if (tensor.is_sparse()) return allreduce_sparse(tensors, opts);
  check_tensor(kCall, tensor);
  const auto fold = std::make_shared<Fold>(kCall, opts.reduceOp, tensor);
  return run(OpType::ALLREDUCE, "tutti:all_reduce", tensors, tensors, opts, [tensor, fold](const Target& at) {
    Packed data(at, tensor, Use::InOut);
    check(tuttiAllReduce(data.data(), data.data(), data.count(fold->elements()), fold->elements().type,
                         fold->on(at.comm), at.comm, at.stream));
    data.unpack();
  });
}

WorkPtr Group::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  constexpr auto kCall = "all_reduce";
  if (tensors.empty()) refuse(kCall, "requires non-empty tensor list");
  std::vector<std::shared_ptr<Fold>> folds;
  for (const auto& tensor : tensors) {
    check_tensor(kCall, tensor);
    folds.push_back(std::make_shared<Fold>(kCall, opts.reduceOp, tensor));
  }
  return run(OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", tensors, tensors, opts,
             [tensors, folds](const Target& at) {
               std::vector<Packed> all;
               const bool apart = overlap(tensors);
               for (const auto& tensor : tensors) all.emplace_back(at, tensor, Use::InOut, apart);
               grouped([&] {
                 for (size_t i = 0; i < all.size(); ++i) {
                   const Elements& elements = folds[i]->elements();
                   check(tuttiAllReduce(all[i].data(), all[i].data(), all[i].count(elements), elements.type,
                                        folds[i]->on(at.comm), at.comm, at.stream));
                 }
               });
               for (auto& data : all) data.unpack();
             });
}

WorkPtr Group::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  constexpr auto kCall = "reduce";
  check_root(kCall, opts.rootRank, opts.rootTensor, getSize(), tensors.size());
  const at::Tensor tensor = only(kCall, tensors);
  check_tensor(kCall, tensor);
  const auto fold = std::make_shared<Fold>(kCall, opts.reduceOp, tensor);
  return run(OpType::REDUCE, "tutti:reduce", tensors, tensors, opts,
             [this, tensor, fold, root = static_cast<int>(opts.rootRank)](const Target& at) {
               Packed data(at, tensor, root == getRank() ? Use::InOut : Use::In);
               check(tuttiReduce(data.data(), root == getRank() ? data.data() : nullptr, data.count(fold->elements()),
                                 fold->elements().type, fold->on(at.comm), root, at.comm, at.stream));
               if (root == getRank()) data.unpack();
             });
}

WorkPtr Group::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

WorkPtr Group::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  check_pairs("all_gather", inputs, outputs, getSize(), true);
  const auto type = outputs.size() == 1 ? OpType::_ALLGATHER_BASE : OpType::COALESCED;
  return run(type, "tutti:all_gather", inputs, outputs, opts, [outputs, inputs](const Target& at) {
    std::vector<Packed> in, out;
    for (const auto& input : inputs) in.emplace_back(at, input, Use::In);
    for (const auto& output : outputs) out.emplace_back(at, output, Use::Out);
    const auto gather = [&] {
      for (size_t i = 0; i < in.size(); ++i) {
        const Elements elements = moved(inputs[i].scalar_type());
        check(tuttiAllGather(in[i].data(), out[i].data(), in[i].count(elements), elements.type, at.comm, at.stream));
      }
    };
    in.size() == 1 ? gather() : grouped(gather);
    for (auto& data : out) data.unpack();
  });
}

WorkPtr Group::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

WorkPtr Group::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                               const c10d::ReduceScatterOptions& opts) {
  constexpr auto kCall = "reduce_scatter";
  check_pairs(kCall, outputs, inputs, getSize(), false);
  std::vector<std::shared_ptr<Fold>> folds;
  for (const auto& input : inputs) {
    folds.push_back(std::make_shared<Fold>(kCall, opts.reduceOp, input));
  }
  const auto type = outputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE : OpType::COALESCED;
  return run(type, "tutti:reduce_scatter", inputs, outputs, opts, [outputs, inputs, folds](const Target& at) {
    std::vector<Packed> in, out;
    for (const auto& input : inputs) in.emplace_back(at, input, Use::In);
    for (const auto& output : outputs) out.emplace_back(at, output, Use::Out);
    const auto scatter = [&] {
      for (size_t i = 0; i < in.size(); ++i) {
        const Elements& elements = folds[i]->elements();
        check(tuttiReduceScatter(in[i].data(), out[i].data(), out[i].count(elements), elements.type,
                                 folds[i]->on(at.comm), at.comm, at.stream));
      }
    };
    in.size() == 1 ? scatter() : grouped(scatter);
    for (auto& data : out) data.unpack();
  });
}

WorkPtr Group::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                             std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  constexpr auto kCall = "all_to_all";
  check_tensor(kCall, input);
  check_tensor(kCall, output);
  demand(input.scalar_type() == output.scalar_type(), kCall, "input and output have different types");
  c10d::checkSplitSizes(input_splits, input, getSize());
  c10d::checkSplitSizes(output_splits, output, getSize());
  const bool even = input_splits.empty() && output_splits.empty();
  return run(
      OpType::ALLTOALL_BASE, "tutti:all_to_all", {input}, {output}, opts,
      [this, output, input, output_splits, input_splits, even](const Target& at) {
        const Elements elements = moved(input.scalar_type());
        const bool overlap = input.is_alias_of(output);
        Packed in(at, input, Use::In, overlap), out(at, output, Use::Out);
        const auto ranks = static_cast<size_t>(getSize());
        if (even) {
          check(tuttiAllToAll(in.data(), out.data(), in.count(elements) / ranks, elements.type, at.comm, at.stream));
        } else {
          std::vector<size_t> sends(ranks), recvs(ranks), unused(ranks);
          c10d::computeLengthsAndOffsets(input_splits, input, &sends, &unused);
          c10d::computeLengthsAndOffsets(output_splits, output, &recvs, &unused);
          for (auto* counts : {&sends, &recvs}) {
            for (size_t& count : *counts) count *= elements.units;
          }
          check(tuttiAllToAllV(in.data(), sends.data(), nullptr, out.data(), recvs.data(), nullptr, elements.type,
                               at.comm, at.stream));
        }
        out.unpack();
      });
}

WorkPtr Group::gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts) {
  constexpr auto kCall = "gather";
  check_root(kCall, opts.rootRank, getSize());
  const bool root = opts.rootRank == getRank();
  root ? check_pair(kCall, input, output, getSize(), true) : check_tensor(kCall, input);
  return run(OpType::GATHER, "tutti:gather", {input}, root ? Tensors{output} : Tensors{}, opts,
             [root, output, input, to = static_cast<int>(opts.rootRank)](const Target& at) {
               const Elements elements = moved(input.scalar_type());
               Packed in(at, input, Use::In);
               std::optional<Packed> out;
               if (root) out.emplace(at, output, Use::Out);
               check(tuttiGather(in.data(), root ? out->data() : nullptr, in.count(elements), elements.type, to,
                                 at.comm, at.stream));
               if (root) out->unpack();
             });
}

WorkPtr Group::barrier(const c10d::BarrierOptions& opts) {
  if (opts.device && opts.device->is_cuda()) return barrier_of_gpus(*opts.device, opts);
  return run(OpType::BARRIER, "tutti:barrier", {}, {}, opts,
             [](const Target& at) { check(tuttiBarrier(at.comm, at.stream)); });
}

}  // namespace tutti_torch
