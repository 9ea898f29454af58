#include "exec/compile/delivery.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::exec {

Decision decide(const OutMessage& message, const link::Access& out, const DeliveryRules& rules) {
  switch (form_of(message.bytes, out)) {
    case link::Form::Ll:
      return {Delivery::Ll, Reason::Flagged};
    case link::Form::Ll128:
      return {Delivery::Ll128, Reason::Flagged};
    case link::Form::Ring:
      break;
  }
  if (message.bytes <= link::kInlineBytes) return {Delivery::Inline, Reason::Fits};
  const Delivery copied = out.push_bytes > 0 ? Delivery::Pushed : Delivery::Staged;
  if (!message.stays) return {copied, Reason::Changes};
  const uint64_t mapped_from = message.shared && out.mapped ? rules.mapped_from : link::kNever;
  const uint64_t address_from = out.address ? rules.address_from : link::kNever;
  const uint64_t cma_from = out.cma ? rules.cma_from : link::kNever;
  if (message.bytes >= mapped_from) return {Delivery::Mapped, Reason::Maps};
  if (message.bytes >= address_from) return {Delivery::Address, Reason::InPlace};
  if (message.bytes >= cma_from) return {Delivery::Cma, Reason::KernelCopies};
  const uint64_t from = std::min({mapped_from, address_from, cma_from});
  if (from != link::kNever) return {copied, Reason::Short, from};
  return {copied, out.cma ? Reason::CopiesAreFaster : Reason::Unreadable};
}

std::string describe(const Decision& decision, uint64_t bytes) {
  if (decision.delivery == Delivery::Pushed)
    return "reading from afar is slow, so it is written to slots: in the peer's memory, or in this host's for the "
           "network";
  switch (decision.reason) {
    case Reason::Fits:
      return fmt::format("{} bytes fit into the message's descriptor", bytes);
    case Reason::Flagged:
      return "each line of it brings its flag, so the peer needs no other message and no fence";
    case Reason::Maps:
      return "the buffer is tuttiMemAlloc's, and the peer maps it";
    case Reason::InPlace:
      return "the buffer is read where it lies, without a copy";
    case Reason::KernelCopies:
      return "the peer's kernel copies straight out of the buffer, which is faster for such blocks";
    case Reason::Changes:
      return "the memory is written to again before all readers are done";
    case Reason::Short:
      return fmt::format("messages of {} bytes are shorter than the {} from which a buffer is read in place", bytes,
                         decision.from);
    case Reason::CopiesAreFaster:
      return "two copies through staging memory are faster here than one by the kernel";
    case Reason::Unreadable:
      break;
  }
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
    case Delivery::Ll:
      return "ll";
    case Delivery::Ll128:
      return "ll128";
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
