#include "exec/compile/delivery.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::exec {

Delivery delivery_of(const OutMessage& message, const link::Access& out, const DeliveryRules& rules) {
  if (message.bytes <= link::kInlineBytes) return Delivery::Inline;
  const Delivery copied = out.push_bytes > 0 ? Delivery::Pushed : Delivery::Staged;
  if (!message.stays) return copied;
  if (message.shared && out.mapped && message.bytes >= rules.mapped_from) return Delivery::Mapped;
  if (out.address && message.bytes >= rules.address_from) return Delivery::Address;
  if (out.cma && message.bytes >= rules.cma_from) return Delivery::Cma;
  return copied;
}

std::string reason_for(const OutMessage& message, const link::Access& out, const DeliveryRules& rules) {
  switch (delivery_of(message, out, rules)) {
    case Delivery::Inline:
      return fmt::format("{} bytes fit into the message's descriptor", message.bytes);
    case Delivery::Mapped:
      return "the buffer is tuttiMemAlloc's, and the peer maps it";
    case Delivery::Address:
      return "the buffer is read where it lies, without a copy";
    case Delivery::Cma:
      return "the peer's kernel copies straight out of the buffer, which is faster for such blocks";
    case Delivery::Pushed:
      return "reading from afar is slow, so it is written to the peer's memory";
    case Delivery::Staged:
      break;
  }
  if (!message.stays) return "the memory is written to again before all readers are done";
  uint64_t from = link::kNever;
  if (message.shared && out.mapped) from = std::min(from, rules.mapped_from);
  if (out.address) from = std::min(from, rules.address_from);
  if (out.cma) from = std::min(from, rules.cma_from);
  if (from != link::kNever) {
    return fmt::format("messages of {} bytes are shorter than the {} from which a buffer is read in place",
                       message.bytes, from);
  }
  if (out.cma) return "two copies through staging memory are faster here than one by the kernel";
  return "this link's peer cannot read the buffer";
}

bool may_arrive_zero_copy(uint64_t bytes, const link::Access& in, const DeliveryRules& rules) {
  return bytes > link::kInlineBytes &&
         ((in.mapped && bytes >= rules.mapped_from) || (in.address && bytes >= rules.address_from) ||
          (in.cma && bytes >= rules.cma_from));
}

const char* name_of(Delivery delivery) {
  switch (delivery) {
    case Delivery::Inline:
      return "inline";
    case Delivery::Staged:
      return "staged";
    case Delivery::Pushed:
      return "pushed";
    case Delivery::Address:
      return "zcopy";
    case Delivery::Mapped:
      return "mapped";
    case Delivery::Cma:
      return "cma";
  }
  return "?";
}

}  // namespace tutti::exec
