// A transport that wraps another one and injects planned faults into its links.
#pragma once

#include <memory>

#include "transports/fault/plan.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {

/// An engine: the executor's messages wait in a separate ring until they are due, then go into the links of `inner`.
/// The reading ends are those of `inner`. Payloads are not copied; they are consumed when the reader of `inner`
/// consumes them.
std::unique_ptr<Transport> make_fault(std::unique_ptr<Transport> inner, const Context& context, const FaultPlan& plan);

/// `inner` with the faults of TUTTI_FAULT, or `inner` itself if it is not set. Throws Error(InvalidArgument).
std::unique_ptr<Transport> with_faults_of_environment(std::unique_ptr<Transport> inner, const Context& context);

}  // namespace tutti::transports
