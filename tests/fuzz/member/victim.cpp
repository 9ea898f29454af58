#include "fuzz/member/victim.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/submit.hpp"
#include "comm/vector_calls.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::fuzz {
namespace {

using comm::Call;
using comm::Communicator;
using link::SharedMemory;

constexpr size_t kElements = 1 << 17;

/// Two adjacent buffers. Unshared ones are at addresses where the member's accomplice, a fork of this process, has
/// memory too.
class Buffers {
 public:
  explicit Buffers(bool shared) : shared_(shared) {
    static float memory[2 * kElements];
    in_ = memory;
    if (shared) in_ = static_cast<float*>(SharedMemory::of_this_process().allocate(sizeof memory));
  }
  ~Buffers() {
    if (shared_) SharedMemory::of_this_process().release(in_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  float* in() const { return in_; }
  float* out() const { return in_ + kElements; }

 private:
  const bool shared_;
  float* in_;
};

void submit(const std::shared_ptr<Communicator>& comm, const Buffers& buffers, Collective collective, uint64_t count) {
  Call call;
  call.spec = {.collective = collective, .type = DType::F32, .count = count};
  call.in = buffers.in();
  call.out = buffers.out();
  comm::submit(comm, call, nullptr);
}

void transfer(const std::shared_ptr<Communicator>& comm, const Buffers& buffers, uint64_t count) {
  comm::group_start();
  for (const bool sends : {true, false}) {
    Call call;
    call.spec = {.collective = Collective::SendRecv, .type = DType::F32, .sends = sends, .count = count};
    call.spec.root = 1 - comm->rank();
    call.in = sends ? buffers.in() : nullptr;
    call.out = sends ? nullptr : buffers.out();
    comm::submit(comm, call, nullptr);
  }
  comm::group_end();
}

void gather_varying(const std::shared_ptr<Communicator>& comm, const Buffers& buffers) {
  const std::vector<size_t> counts{1000, 3000};
  Call call;
  call.spec = {.collective = Collective::AllGather, .type = DType::F32};
  call.in = buffers.in();
  call.out = buffers.out();
  const size_t mine = counts[static_cast<size_t>(comm->rank())];
  comm::submit(comm, comm::vector_call(call, comm->rank(), kRanks, mine, {}, 0, {counts.data(), nullptr}), nullptr);
}

void make_calls(const std::shared_ptr<Communicator>& comm, const Buffers& buffers) {
  constexpr std::array<uint64_t, 3> kCounts{1, 2000, 65536};  // inline, staged, zero-copy
  for (const uint64_t count : kCounts) {
    submit(comm, buffers, Collective::AllToAll, count);
    submit(comm, buffers, Collective::AllGather, count);
    submit(comm, buffers, Collective::AllReduce, std::min<uint64_t>(count, 32768));  // whose messages are of one length
  }
  submit(comm, buffers, Collective::Scatter, kCounts.back());
  for (const uint64_t count : kCounts) transfer(comm, buffers, count);
  submit(comm, buffers, Collective::Broadcast, kCounts.back());
  gather_varying(comm, buffers);
  comm::submit_split(comm, 0, 0, [](const std::shared_ptr<Communicator>& part) {
    if (part) static_cast<void>(part->leave());
  });
}

}  // namespace

void live(const control::UniqueId& id, Rank rank, bool shares) {
  const Buffers buffers(shares);
  try {
    const auto comm = Communicator::join(id, kRanks, rank);
    try {
      make_calls(comm, buffers);
    } catch (const Error&) {
      if (comm::in_group()) comm::group_discard();
    }
    static_cast<void>(comm->leave());
  } catch (const Error&) {
  }
}

}  // namespace tutti::fuzz
