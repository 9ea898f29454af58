// What the system lets this process have, and what to say when it refuses.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// strerror, and for a limit that can be raised its name and value: "Too many open files (ulimit -n allows 64)".
std::string system_words(int error);
/// True for the errors that mean: out of descriptors, of this process (EMFILE) or of the machine (ENFILE).
bool out_of_descriptors(int error);

/// This process has no descriptor left: no time-out, and nothing that another try would mend.
class NoDescriptor : public Error {
 public:
  explicit NoDescriptor(const std::string& what) : Error(Code::SystemError, what) {}
};
/// Throws "cannot WHAT: …": NoDescriptor, or Error(SystemError) for any other error.
[[noreturn]] void throw_system(const char* what, int error);

/// How many descriptors are left to the program and to connections when memory takes one for each block: an eighth of
/// all that this process may have, 12 to 64.
int descriptor_reserve();

enum class Reserve { Keep, Use };
/// A file in memory without a name, close-on-exec: `bytes` long, all of them allocated, so that touching them cannot
/// fail; its size sealed. An empty Fd and errno where it cannot be had: EFBIG where it is above RLIMIT_FSIZE, which the
/// kernel would answer with SIGXFSZ; EMFILE also where the reserve of descriptors is to be kept and would be touched.
Fd make_memory_file(const char* name, uint64_t bytes, Reserve reserve);

/// Throws Error(SystemError) that names the limits on threads.
[[noreturn]] void throw_no_thread(int error);

/// A thread that runs `body`. Throws Error(SystemError) where the system refuses it.
template <class Thread = std::thread, class Body>
Thread start_thread(Body&& body) {
  try {
    return Thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw_no_thread(error.code().value());
  }
}

}  // namespace tutti
