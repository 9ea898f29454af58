// The module `cmadevice`: a device for windows between processes of one host that take each other for other hosts. The
// kernel copies (process_vm_writev); there are no atomic steps, so signals are requests. It carries no messages.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "transports/pod_text.hpp"
#include "transports/transport.hpp"
#include "tutti/error.hpp"

namespace tutti::transports {
namespace {

class CmaQueue final : public RemoteQueue {
 public:
  std::string offer() override { return pack(::getpid()); }
  void connect(const std::string& answer) override {
    if (!unpack(answer, peer_)) throw Error(Code::ProtocolError, "the answer is no process");
  }
  RemoteAtomics atomics() const override { return RemoteAtomics::None; }

  void write(std::span<const std::byte> source, const RemoteKey& key, uint64_t offset, RemoteWait&) override {
    move(const_cast<std::byte*>(source.data()), source.size(), key.address + offset, ::process_vm_writev);
  }
  void read(std::span<std::byte> into, const RemoteKey& key, uint64_t offset, RemoteWait&) override {
    move(into.data(), into.size(), key.address + offset, ::process_vm_readv);
  }
  void flush(const RemoteKey& key, RemoteWait& wait) override {
    uint64_t word = 0;
    read(std::as_writable_bytes(std::span(&word, 1)), key, 0, wait);
  }
  void count(const RemoteKey&, uint64_t, RemoteWait&) override { throw_no_atomics(); }
  uint64_t add(uint64_t, const RemoteKey&, uint64_t, RemoteWait&) override { throw_no_atomics(); }
  uint64_t compare_swap(uint64_t, uint64_t, const RemoteKey&, uint64_t, RemoteWait&) override { throw_no_atomics(); }

 private:
  [[noreturn]] static void throw_no_atomics() { throw Error(Code::InternalError, "it has no atomic steps"); }
  template <class Call>
  void move(std::byte* here, size_t bytes, uint64_t there, const Call& call) const {
    for (size_t done = 0; done < bytes;) {
      const iovec local{here + done, bytes - done}, remote{reinterpret_cast<void*>(there + done), bytes - done};
      const ssize_t now = call(peer_, &local, 1, &remote, 1, 0);
      if (now <= 0) throw_error(Code::SystemError, "the kernel does not copy: {}", std::strerror(errno));
      done += static_cast<size_t>(now);
    }
  }

  pid_t peer_ = 0;
};

class CmaDevice final : public RemoteMemory {
 public:
  const std::string& name() const override { return name_; }
  std::shared_ptr<const void> expose(void* memory, uint64_t bytes, RemoteKey& key) override {
    key = {.address = reinterpret_cast<uint64_t>(memory), .bytes = bytes, .key = 1};
    return std::make_shared<int>(0);
  }
  std::unique_ptr<RemoteQueue> make_queue(Rank) override { return std::make_unique<CmaQueue>(); }
  std::string accept(Rank, const std::string&) override { return pack(::getpid()); }

 private:
  const std::string name_ = "cmadevice";
};

const TransportRegistration cma_device({.name = "cmadevice",
                                        .summary = "no messages; a device for windows",
                                        .preference = 95,
                                        .make = [](const Context&) -> std::unique_ptr<Transport> {
                                          throw Error(Code::Unsupported, "cmadevice carries no messages");
                                        },
                                        .remote_memory = [](Wireup&) -> std::unique_ptr<RemoteMemory> {
                                          return std::make_unique<CmaDevice>();
                                        }});

}  // namespace
}  // namespace tutti::transports
