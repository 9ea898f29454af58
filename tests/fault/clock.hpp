#pragma once

namespace tutti::fault {

/// Seconds of CLOCK_MONOTONIC, the same in all processes of a host.
double now();

}  // namespace tutti::fault
