// Checks a call's arguments before any data is touched.
#include "base/format.hpp"
#include "comm/communicator.hpp"
#include "plan/plan.hpp"

namespace tutti::comm {
namespace {

/// Bytes [begin, end) of a buffer.
struct Extent {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

class Checker {
 public:
  Checker(const Call& call, Rank rank, Rank ranks) : call_(call), spec_(call.spec), rank_(rank), ranks_(ranks) {}

  void run() const {
    check_kinds();
    if (spec_.collective == Collective::Barrier) return;
    const Extent in = extent(call_.in, plan::Buffer::Input, "the input (sendbuff)");
    const Extent out = extent(call_.out, plan::Buffer::Output, "the output (recvbuff)");
    const bool overlap = in.begin < out.end && out.begin < in.end;
    if (!overlap) return;
    const bool never = spec_.collective == Collective::AllToAll || spec_.collective == Collective::SendRecv;
    if (!never && is_in_place(call_, rank_)) return;
    bad("input and output overlap{}", never ? "; this call cannot run in place" : " without being in place");
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(Code::InvalidArgument, "rank {}: {}: {}", rank_, describe(spec_),
                fmt::format(text, std::forward<Args>(args)...));
  }

  void check_kinds() const {
    if (static_cast<int>(spec_.type) >= kDTypes) bad("{} is not an element type", static_cast<int>(spec_.type));
    if (static_cast<int>(spec_.op) >= kOps) bad("{} is not a reduction operator", static_cast<int>(spec_.op));
    if (spec_.root < 0 || spec_.root >= ranks_) {
      const char* what = spec_.collective == Collective::SendRecv ? "peer" : "root";
      bad("{} {} is not a rank of this communicator (0 to {})", what, spec_.root, ranks_ - 1);
    }
    // A negative number that was cast has the highest bit set; and all n blocks must be addressable.
    int64_t bytes = 0;
    if (__builtin_mul_overflow(spec_.count, size_of(spec_.type) * static_cast<uint64_t>(ranks_), &bytes)) {
      bad("count {} is negative or too large", spec_.count);
    }
  }

  uint64_t buffer_blocks(plan::Buffer buffer) const {
    if (spec_.collective == Collective::SendRecv) return (buffer == plan::Buffer::Input) == spec_.sends ? 1 : 0;
    return plan::blocks(spec_.collective, ranks_, buffer,
                        rank_ == spec_.root ? 0 : 1);  // all ranks but the root are alike
  }

  Extent extent(const void* data, plan::Buffer buffer, const char* what) const {
    const uint64_t bytes = buffer_blocks(buffer) * spec_.count * size_of(spec_.type);
    if (bytes == 0) return {};
    if (data == nullptr) bad("{} is null", what);
    const auto begin = reinterpret_cast<uintptr_t>(data);
    if (begin > kEndOfMemory || bytes > kEndOfMemory - begin) bad("{} goes beyond the end of memory", what);
    return {begin, begin + bytes};
  }

  const Call& call_;
  const CallSpec& spec_;
  Rank rank_;
  Rank ranks_;
};

}  // namespace

void Communicator::check(const Call& call) const {
  if (!call.spec.is_vector) Checker(call, rank(), ranks()).run();  // else vector_call() has checked it
  if (is_suspended() && !has_failed()) unusable_status(describe(call.spec)).throw_if_bad();
  if (call.backend == kHostBackend || !is_live()) return;
  const BackendCalls& on = *on_[call.backend];
  on.check_served(rank(), title());
  on.check(call, rank(), ranks());
}

}  // namespace tutti::comm
