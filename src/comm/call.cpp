#include "comm/call.hpp"

#include <fmt/format.h>

namespace tutti::comm {

std::string describe(const CallSpec& spec) {
  const char* type = name_of(spec.type);
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
