// The reading end of a link: puts the messages that UCX delivers into a ring of this process, in order, and tells the
// peer what has been consumed.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "link/host_memory.hpp"
#include "transports/ucx/fabric.hpp"
#include "transports/ucx/stream.hpp"

namespace tutti::transports::ucx {

class Receiver {
 public:
  Receiver(Fabric& fabric, const Stream::Who& who);
  ~Receiver() { drop_announced(); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  link::InLink link() {
    return {.ring = ring_->ring,
            .consumed = &ring_->consumed,
            .peer = out_.peer,
            .addresses = true,
            .posted = posted_.get()};
  }
  /// The peer's stream has come.
  void attach(Fd stream) { stream_.attach(std::move(stream)); }
  Stream& stream() { return stream_; }
  const Stream& stream() const { return stream_; }
  uint64_t received() const { return out_.next; }

  /// A message: `bytes` bytes are at `data`, or announced as `data`. Returns whether `data` is kept, to be fetched.
  bool take(const Message& message, void* data, uint64_t bytes, bool announced);
  /// Fetches and publishes what has come, and tells the peer what has been consumed. Never waits.
  Status progress(bool& moved);
  void stop();

 private:
  enum class State : uint8_t { Missing, Announced, Fetched, Here };
  /// Memory for a long payload; grows, and is reused.
  struct Buffer {
    std::unique_ptr<unsigned char[]> bytes;
    uint64_t size = 0;
  };
  struct Slot {
    State state = State::Missing;
    Message header{};
    void* announced = nullptr;
    Operation fetch;
    unsigned char* to = nullptr;  // where the payload is fetched to: the posted destination, or the buffer
    Buffer buffer;
    unsigned char small[link::kInlineBytes];
  };

  void place(Slot& slot, const void* data);
  Status fetch_next(bool& moved);
  bool find_place(Slot& slot);
  Status publish(bool& moved);
  void reclaim();
  Status send_credit();
  void drop_announced();

  Fabric& fabric_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  std::unique_ptr<link::Posted[]> posted_ = std::make_unique<link::Posted[]>(link::kPostedAhead);
  link::OutLink out_;
  std::array<Slot, kSlots> slots_;
  std::unique_ptr<unsigned char[]> eager_;  // kSlots payloads of kEager bytes
  std::vector<Buffer> unused_;              // a stack: the last one is still in the cache
  uint32_t buffers_ = 0;                    // in slots
  uint64_t reclaimed_ = 0;
  uint64_t to_fetch_ = 0;  // all announced messages before this one are being fetched
  uint64_t credited_ = 0;  // what the peer knows of out_.acked
  Credit credit_{};
  Operation crediting_;
  Status failure_;  // found in take()
  bool stopped_ = false;
  Stream stream_;
};

}  // namespace tutti::transports::ucx
