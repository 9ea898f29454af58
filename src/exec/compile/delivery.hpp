// The one place that decides how a message's bytes reach a reader. It is decided when a program is compiled, from facts
// that do not change while the program is kept; the interpreter only executes it. (UCX chooses its protocols in the
// same way: short, bcopy and zcopy.)
#pragma once

#include <cstdint>
#include <string>

#include "exec/instruction.hpp"
#include "link/link.hpp"
#include "link/traits.hpp"

namespace tutti::exec {

/// From how many bytes on each kind of zero-copy delivery, and each kind of help between ranks, is used in a call.
/// Equal on all ranks of the call: they follow from its arguments and from what the ranks have agreed on.
struct DeliveryRules {
  uint64_t address_from = link::kNever;
  uint64_t mapped_from = link::kNever;
  uint64_t cma_from = link::kNever;
  uint64_t cooperative_from = link::kNever;   ///< cooperative copies
  uint64_t direct_store_from = link::kNever;  ///< peers store folds directly into the output
  bool operator==(const DeliveryRules&) const = default;
};

/// What the sender knows of a message.
struct OutMessage {
  uint64_t bytes = 0;
  bool stays = false;      ///< it lies in one piece of memory, unchanged until all its readers are done
  bool shared = false;     ///< that memory is a SharedRegion, which peers can map
  bool in_memory = false;  ///< it lies in one piece of memory when the instruction has run, but may be changed later
};

/// Does a message travel in lines? Both its ends know.
inline link::Form form_of(uint64_t bytes, const link::Access& access) {
  if (access.ll_bytes > 0 && bytes <= access.ll_bytes) return link::Form::Ll;
  if (access.ll128_bytes > 0 && bytes <= access.ll128_bytes) return link::Form::Ll128;
  return link::Form::Ring;
}

/// Why a message is delivered as it is. The last four: why it is copied, to staging or to the reader.
enum class Reason : uint8_t { Fits, Flagged, Maps, InPlace, KernelCopies, Changes, Short, CopiesAreFaster, Unreadable };

struct Decision {
  Delivery delivery = Delivery::Staged;
  Reason reason = Reason::Unreadable;
  uint64_t from = link::kNever;  ///< with Reason::Short: messages of so many bytes would be read in place
};

/// Of the kinds that a link supports, the cheapest: in lines, inline, mapped, at its address, CMA; else staged.
Decision decide(const OutMessage& message, const link::Access& out, const DeliveryRules& rules);
inline Delivery delivery_of(const OutMessage& message, const link::Access& out, const DeliveryRules& rules) {
  return decide(message, out, rules).delivery;
}
/// Why, in words for the user. `bytes`: of the message.
std::string describe(const Decision& decision, uint64_t bytes);

/// May a message of `bytes` bytes arrive zero-copy? The writer's delivery_of() is not known in full to its reader.
bool may_arrive_zero_copy(uint64_t bytes, const link::Access& in, const DeliveryRules& rules);

const char* name_of(Delivery delivery);

}  // namespace tutti::exec
