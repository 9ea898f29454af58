// The system's limits on this process, and error texts for exceeded ones.
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
/// True if a descriptor limit of this process (EMFILE) or of the machine (ENFILE) is reached.
bool out_of_descriptors(int error);

/// This process has no descriptor left. Not a time-out, and another attempt does not help.
class NoDescriptor : public Error {
 public:
  explicit NoDescriptor(const std::string& what) : Error(Code::SystemError, what) {}
};
/// Throws "cannot WHAT: …": NoDescriptor, or Error(SystemError) for any other error.
[[noreturn]] void throw_system(const char* what, int error);

/// The number of descriptors that this process may have, at most 2^20.
size_t max_descriptors();

/// Descriptors reserved for the program and for connections when memory uses one per block: an eighth of this process's
/// limit, from 12 to 64.
int descriptor_reserve();

enum class Reserve { Keep, Use };
enum class Pages { Now, Later };
enum class Size { Fixed, Grows };
/// An unnamed file in memory, close-on-exec, `bytes` long and sealed: it never shrinks. All bytes are allocated now, so
/// touching them cannot fail; or later by `allocate_memory`, before they are touched. An empty Fd and errno on failure:
/// EFBIG if it exceeds RLIMIT_FSIZE, for which the kernel would send SIGXFSZ; EMFILE also if that would use reserved
/// descriptors and `reserve` is Keep.
Fd make_memory_file(const char* name, uint64_t bytes, Reserve reserve, Pages pages = Pages::Now,
                    Size size = Size::Fixed);
/// Makes a file that grows at least `bytes` long. 0 or errno.
int grow_memory_file(int fd, uint64_t bytes);
/// Allocates bytes of such a file. 0 or errno.
int allocate_memory(int fd, uint64_t offset, uint64_t bytes);
/// Frees them again; they read as zeros.
void free_memory(int fd, uint64_t offset, uint64_t bytes);

/// Throws Error(SystemError) that names the limits on threads.
[[noreturn]] void throw_no_thread(int error);

/// A thread that runs `body`. Throws Error(SystemError) if the system cannot start it.
template <class Thread = std::thread, class Body>
Thread start_thread(Body&& body) {
  try {
    return Thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw_no_thread(error.code().value());
  }
}

}  // namespace tutti
