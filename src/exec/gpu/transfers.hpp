// Programs of sends, receives and vector calls for GPUs. What such calls move differs from call to call, and a program
// is too long to be written to the GPU for each of them. So programs are made by *shape*: which transfers there are,
// from and to whom, in which order; and each call tells its program, in TransferParts, where their bytes are and how
// many.
//
// In a program by shape each transfer has two instructions in each replica: messages of the greatest length, and a
// rest. When a call begins, the kernel writes its lengths and addresses to them, and leaves out those that have nothing
// to do (exec/cuda/transfers.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hd.hpp"
#include "exec/compile/direct.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::gpu {

/// Equal for calls that the same program serves.
std::string shape_of(const Direct& direct);
/// A call of the same shape in which every transfer has messages of the greatest length and a rest.
Direct example_of(const Direct& direct);
/// A transfer's part; `message`: bytes of the longest message; `most`: replicas of the program. The same at both ends.
TransferPart part_of(const unsigned char* data, uint64_t bytes, uint64_t tag, uint64_t message, uint32_t most);
/// How many replicas a transfer with these peers may have; without peers, a fold. The same at both ends.
using MostReplicas = std::function<uint32_t(const std::vector<Rank>& peers)>;
/// Of every transfer, in the order of the program's instructions; of a fold, which comes last, its own contribution and
/// then its result.
std::vector<TransferPart> parts_of(const Direct& direct, const MostReplicas& most);
/// The same transfers, but those with near and far peers are two: they have different numbers of replicas.
Direct with_far_apart(const Direct& direct, const std::function<bool(Rank)>& is_far);
/// How many replicas take part in the call.
uint32_t width_of(const std::vector<TransferPart>& parts);

/// One replica's share of a transfer: `count` messages from number `first` on, then perhaps the rest.
struct TransferShare {
  uint64_t first = 0, count = 0;
  bool has_rest = false;
};

TUTTI_HD inline uint64_t whole_messages(const TransferPart& part) { return part.each * part.width + part.more; }
/// Is there a message beside the whole ones? No bytes are one empty message.
TUTTI_HD inline bool rests(const TransferPart& part) { return part.rest != 0 || whole_messages(part) == 0; }
TUTTI_HD inline TransferShare share_of(const TransferPart& part, uint32_t replica) {
  if (replica >= part.width) return {};
  const bool more = replica < part.more;
  const uint64_t first = part.each * replica + (more ? replica : part.more);
  return {first, part.each + (more ? 1 : 0), rests(part) && replica == part.width - 1};
}

}  // namespace tutti::exec::gpu
