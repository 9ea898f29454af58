// Who this process is, and whether another one of this host is still there.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"
#include "base/format.hpp"

namespace tutti::control {

/// Identity of this host as far as sharing goes: a hash of the kernel's boot id, of the network, IPC and process-id
/// namespaces, and of the hardware addresses of the network interfaces. So two containers of one machine that cannot
/// reach each other's memory are two hosts, and so are two copies of one virtual machine, which have the same boot id.
/// Empty where /proc does not tell: then nothing is known of who shares this host.
const std::string& host_identity();
/// The host's name, for people.
std::string host_name();
/// "process 4711 on node17": this one.
std::string this_process();
/// True where the system refused something, of which it matters where that was.
inline bool is_of_the_system(Code code) { return code == Code::SystemError || code == Code::OutOfMemory; }
/// Runs `body`; what the system refuses there is told of this process.
template <class Body>
decltype(auto) on_this_host(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!is_of_the_system(error.code())) throw;
    throw_error(error.code(), "{}: {}", this_process(), error.what());
  }
}
/// When process `process` of this host was started, in the kernel's ticks since boot; 0 if there is no such process, or
/// where /proc shows the processes of another namespace.
uint64_t process_start(uint32_t process);
/// A descriptor that becomes readable when that very process (not a later one with its number) has died; invalid if it
/// has died already, or where the kernel has no such thing (then `*unsupported` is set).
Fd watch_process(uint32_t process, uint64_t started, bool* unsupported);

}  // namespace tutti::control
