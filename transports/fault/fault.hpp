// A transport around another one, whose links fail as planned.
#pragma once

#include <memory>

#include "transports/fault/plan.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {

/// An engine: an executor's messages wait in a ring of their own until they may go on into the links of `inner`. The
/// reading ends are inner's. Payloads are not copied, so memory is given back when inner's reader is done with it.
std::unique_ptr<Transport> make_fault(std::unique_ptr<Transport> inner, const Context& context, const FaultPlan& plan);

/// `inner` with the faults that TUTTI_FAULT asks for, or as it is. Throws Error(InvalidArgument).
std::unique_ptr<Transport> with_faults_of_environment(std::unique_ptr<Transport> inner, const Context& context);

}  // namespace tutti::transports
