// Replicas must stay the same, bit for bit: all of them take the same steps. A difference is a defect (of memory, of a
// link, of a program), and training on would hide it.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "train/core/hash.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

uint64_t hash_of(Device& device, Span span, uint64_t before) {
  std::vector<uint64_t> words((span.bytes() + 7) / 8);
  if (!span.empty()) device.download(words.data(), span.data, span.bytes());
  for (const uint64_t word : words) before = mix(before ^ word);
  return before;
}

}  // namespace

/// Of dense parameters and of experts.
std::array<uint64_t, 2> Trainer::hash_of_weights() {
  std::array<uint64_t, 2> hashes{};
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    data_parallel_->parameters_needed(unit, Pass::Forward);
    for (const Parameter& p : units_[unit]->layout().parameters()) {
      uint64_t& hash = hashes[p.expert ? 1 : 0];
      hash = hash_of(*device_, states_[unit].weights.part(p.offset, p.count), hash);
    }
    data_parallel_->parameters_done(unit, Pass::Forward);
  }
  return hashes;
}

void Trainer::compare_replicas() {
  if (mesh_.world().absent() || options_.data_parallel.mode == DataParallelMode::Zero3) return;
  const std::array<uint64_t, 2> mine = hash_of_weights();
  std::vector<std::array<uint64_t, 2>> all(static_cast<size_t>(mesh_.world().size()));
  mesh_.world().all_gather(Purpose::Setup, {const_cast<uint64_t*>(mine.data()), 2, DType::U64},
                           {all.data(), 2 * all.size(), DType::U64});
  // The first rank of each group of replicas. Every rank comes to the same verdict.
  std::map<std::array<int, 3>, size_t> first_dense, first_experts;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const MeshShape at = mesh_.coordinates(static_cast<int>(rank));
    const size_t dense = first_dense.try_emplace({at.pp, at.tp, 0}, rank).first->second;
    const size_t experts = first_experts.try_emplace({at.pp, at.tp, at.ep}, rank).first->second;
    const bool differs = all[rank][0] != all[dense][0];
    if (!differs && all[rank][1] == all[experts][1]) continue;
    throw Error(Code::Mismatch,
                fmt::format("after step {} the weights of rank {} differ from those of rank {}, its replica: a rank "
                            "computes wrongly (memory? another library?). Go on from the last checkpoint, without it",
                            done_, rank, differs ? dense : experts));
  }
}

}  // namespace tutti::train
