#pragma once

namespace tutti::fault {

/// CLOCK_MONOTONIC in seconds, equal in all processes of a host.
double now();

}  // namespace tutti::fault
