#include "comm/call.hpp"

#include <fmt/format.h>

namespace tutti::comm {

namespace {

std::string describe_vector(const CallSpec& spec) {
  const bool rooted = spec.collective == Collective::Gather || spec.collective == Collective::Scatter;
  return fmt::format("{}_v({}{}{})", name_of(spec.collective), name_of(spec.type),
                     reduces(spec.collective) ? fmt::format(", {}", name_of(spec.op)) : "",
                     rooted ? fmt::format(", root={}", spec.root) : "");
}

std::string describe_one_sided(const CallSpec& spec) {
  const char* const name = name_of(spec.call_on_window());
  const int signal = static_cast<int>(spec.type);
  switch (spec.call_on_window()) {
    case OneSidedCall::Put:
      return fmt::format("{}({} bytes, to rank {})", name, spec.count, spec.root);
    case OneSidedCall::Get:
      return fmt::format("{}({} bytes, from rank {})", name, spec.count, spec.root);
    case OneSidedCall::Signal:
      return fmt::format("{}({}, to rank {})", name, signal, spec.root);
    case OneSidedCall::PutSignal:
      return fmt::format("{}({} bytes, to rank {}, signal {})", name, spec.count, spec.root, signal);
    case OneSidedCall::WaitSignal:
      return fmt::format("{}({} of signal {}, from rank {})", name, spec.count, signal, spec.root);
    case OneSidedCall::Add:
    case OneSidedCall::CompareSwap:
      return fmt::format("{}(to rank {})", name, spec.root);
    case OneSidedCall::Flush:
    case OneSidedCall::Acquire:
      break;
  }
  return spec.root < 0 ? fmt::format("{}()", name) : fmt::format("{}(rank {})", name, spec.root);
}

}  // namespace

const char* name_of(OneSidedCall call) {
  constexpr const char* kNames[kOneSidedCalls] = {
      "put",   "get",           "signal", "put_signal", "wait_signal", "atomic_add", "atomic_compare_swap",
      "flush", "window_barrier"};
  return static_cast<int>(call) < kOneSidedCalls ? kNames[static_cast<int>(call)] : "?";
}

std::string describe(const CallSpec& spec) {
  if (spec.one_sided) return describe_one_sided(spec);
  if (spec.splits) return "split()";
  if (spec.leaves) return "destroy()";
  if (spec.registers) return "window_register()";
  if (spec.deregisters) return fmt::format("window_deregister(the window of call {})", spec.count);
  if (spec.suspends) return spec.count == 0 ? "suspend()" : "resume()";
  const char* type = name_of(spec.type);
  if (spec.is_vector) return describe_vector(spec);
  switch (spec.collective) {
    case Collective::Barrier:
      return "barrier()";
    case Collective::SendRecv:
      return fmt::format("{}(count={}, {}, {} rank {})", spec.sends ? "send" : "recv", spec.count, type,
                         spec.sends ? "to" : "from", spec.root);
    case Collective::AllReduce:
    case Collective::ReduceScatter:
      return fmt::format("{}(count={}, {}, {})", name_of(spec.collective), spec.count, type, name_of(spec.op));
    case Collective::Reduce:
      return fmt::format("reduce(count={}, {}, {}, root={})", spec.count, type, name_of(spec.op), spec.root);
    case Collective::AllGather:
    case Collective::AllToAll:
      return fmt::format("{}(count={}, {})", name_of(spec.collective), spec.count, type);
    case Collective::Broadcast:
    case Collective::Gather:
    case Collective::Scatter:
      return fmt::format("{}(count={}, {}, root={})", name_of(spec.collective), spec.count, type, spec.root);
  }
  return "?";
}

}  // namespace tutti::comm
