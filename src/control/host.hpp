// The identity of this host and process, and whether another process of this host is alive.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"
#include "base/format.hpp"

namespace tutti::control {

/// Identity of this host for shared memory: a hash of the kernel's boot id, of the network, IPC and process-id
/// namespaces, and of the hardware addresses of the network interfaces. Two containers of one machine that cannot reach
/// each other's memory are thus two hosts. So are two copies of one virtual machine, which have the same boot id. Empty
/// if /proc is not readable; then it is unknown which processes share this host. With TUTTI_FORCE_REMOTE no other
/// process has the same.
const std::string& host_identity();
/// The running kernel, as long as it runs: a hash of its boot id, which containers of one machine share. Empty if /proc
/// is not readable, or with TUTTI_FORCE_REMOTE.
std::string boot_identity();
/// The host's name in messages.
std::string host_name();
/// This process in messages: "process 4711 on node17".
std::string this_process();
/// True for errors of the operating system; their texts name the process.
inline bool is_of_the_system(Code code) { return code == Code::SystemError || code == Code::OutOfMemory; }
/// Runs `body`; adds this process's name to errors of the operating system.
template <class Body>
decltype(auto) on_this_host(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!is_of_the_system(error.code())) throw;
    throw_error(error.code(), "{}: {}", this_process(), error.what());
  }
}
/// The start time of process `process` of this host, in the kernel's ticks since boot. 0 if there is no such process,
/// or if /proc shows another namespace.
uint64_t process_start(uint32_t process);
/// Is that process (not a later one with its number) stopped, by a signal or a debugger? False where it is not known.
bool is_stopped(uint32_t process, uint64_t started);
/// A descriptor that becomes readable when that process (not a later one with its number) has died. Invalid if it has
/// died already, or if the kernel has no pidfd (then `*unsupported` is set).
Fd watch_process(uint32_t process, uint64_t started, bool* unsupported);

}  // namespace tutti::control
