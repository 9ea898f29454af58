#include "conformance/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "support/canonical.hpp"
#include "tools/perf/guarded_buffer.hpp"

namespace tutti::conformance {
namespace {

using tools::GuardedBuffer;
using tools::Pattern;

constexpr uint64_t kSeed = 20240229;

/// A buffer whose data begin a few elements after the allocation, so that alignments change.
class ShiftedBuffer {
 public:
  ShiftedBuffer(size_t capacity, GuardedBuffer::Kind kind) : buffer_(capacity + kMaxShift, kind) {}
  void arm(size_t bytes, size_t shift) {
    shift_ = shift;
    buffer_.arm(bytes + shift);
  }
  std::byte* data() const { return buffer_.data() + shift_; }
  /// The number of changed bytes around the data.
  size_t damaged() const {
    const auto changed =
        std::count_if(buffer_.data(), buffer_.data() + shift_, [](std::byte b) { return b != std::byte{0xff}; });
    return buffer_.damaged() + static_cast<size_t>(changed);
  }
  static constexpr size_t kMaxShift = 64;

 private:
  GuardedBuffer buffer_;
  size_t shift_ = 0;
};

size_t largest(std::span<const Case> cases) {
  size_t bytes = 0;
  for (const Case& c : cases) {
    bytes = std::max(bytes, c.shape.count * static_cast<size_t>(c.shape.ranks) * size_of(c.shape.type));
  }
  return bytes;
}

class RankUnderTest {
 public:
  RankUnderTest(std::span<const Case> cases, int rank, tuttiComm_t comm, Board& board, GuardedBuffer::Kind kind)
      : capacity_(largest(cases)),
        kind_(kind),
        rank_(rank),
        comm_(comm),
        board_(board),
        in_(capacity_, kind),
        out_(capacity_, kind) {}

  /// False if the call failed; then no other may follow.
  bool run(const Case& c) {
    case_ = &c;
    ++findings().cases[row()];
    // New memory from time to time, often at an earlier address, which peers may still have mapped.
    if (kind_ == GuardedBuffer::Kind::Mapped && findings().cases[row()] % 64 == 0) {
      in_ = ShiftedBuffer(capacity_, kind_);
      out_ = ShiftedBuffer(capacity_, kind_);
    }
    return c.shape.collective == Collective::Barrier ? barrier() : move_data();
  }

 private:
  Findings& findings() { return board_.findings[static_cast<size_t>(rank_)]; }
  size_t row() const { return static_cast<size_t>(row_of(*case_)); }
  template <class... Args>
  void wrong(fmt::format_string<Args...> text, Args&&... args) {
    report(findings(), row_of(*case_),
           fmt::format("rank {}: {}: {}", rank_, describe(*case_), fmt::format(text, std::forward<Args>(args)...)));
  }

  bool succeeded(tuttiResult_t result) {
    if (result == tuttiSuccess) return true;
    wrong("{}: {}", tuttiGetErrorString(result), tuttiGetLastError());
    return false;
  }

  bool barrier() {
    const uint64_t mine = board_.barriers[static_cast<size_t>(rank_)].fetch_add(1) + 1;
    if (!succeeded(tuttiBarrier(comm_, nullptr))) return false;
    for (int peer = 0; peer < case_->shape.ranks; ++peer) {
      const uint64_t entered = board_.barriers[static_cast<size_t>(peer)].load();
      if (entered < mine) wrong("left barrier {} while rank {} had entered {}", mine, peer, entered);
    }
    return true;
  }

  bool move_data() {
    const tools::CallShape& shape = case_->shape;
    Pattern& pattern = pattern_of(shape);
    const size_t element = size_of(shape.type), shift = turn_++ % 4 * element;
    const size_t in_bytes = pattern.input_count(rank_) * element, out_bytes = pattern.output_count(rank_) * element;
    const size_t mine = static_cast<size_t>(rank_) * shape.count * element;
    in_.arm(in_bytes, shift);
    out_.arm(out_bytes, (shift * 2) % ShiftedBuffer::kMaxShift);
    std::byte *in = in_.data(), *out = out_.data();
    if (case_->in_place && in_bytes > out_bytes) out = in + (out_bytes == 0 ? 0 : mine);
    if (case_->in_place && in_bytes < out_bytes) in = out + (in_bytes == 0 ? 0 : mine);
    if (case_->in_place && in_bytes == out_bytes) out = in;
    pattern.fill_input(rank_, in);
    if (!succeeded(call(pattern, in_bytes == 0 && turn_ % 2 == 0 ? nullptr : in,
                        out_bytes == 0 && turn_ % 2 == 0 ? nullptr : out))) {
      return false;
    }
    check(pattern, in, out, in_bytes, out_bytes);
    return true;
  }

  /// Making values is slow, so calls that differ only in root or placement share them.
  Pattern& pattern_of(const tools::CallShape& shape) {
    const bool known = pattern_ && shape.collective == made_for_.collective && shape.type == made_for_.type &&
                       shape.op == made_for_.op && shape.count == made_for_.count;
    if (!known) pattern_.emplace(shape, kSeed, tables_);
    made_for_ = shape;
    pattern_->set_root(shape.root);
    return *pattern_;
  }

  void check(Pattern& pattern, std::byte* in, std::byte* out, size_t in_bytes, size_t out_bytes) {
    const DType type = case_->shape.type;
    const tools::Verdict result = pattern.check_output(rank_, out);
    if (result.wrong != 0) {
      wrong("{} wrong elements; element {} is {} and should be {}", result.wrong, result.first,
            tools::element_text(result.got, type), tools::element_text(result.expected, type));
    }
    const bool overlap = in < out + out_bytes && out < in + in_bytes;
    if (overlap && in_bytes > out_bytes) restore(pattern, in, out, out_bytes);
    if (!overlap || in_bytes > out_bytes) {
      const tools::Verdict input = pattern.check_input(rank_, in);
      if (input.wrong != 0) wrong("{} elements of the input have changed, from element {}", input.wrong, input.first);
    }
    if (in_.damaged() + out_.damaged() != 0) {
      wrong("{} bytes around the input and {} around the output have changed", in_.damaged(), out_.damaged());
    }
  }

  /// Restores the input where the call writes its output; the rest must be unchanged.
  void restore(Pattern& pattern, const std::byte* in, std::byte* out, size_t out_bytes) {
    const size_t element = size_of(case_->shape.type), first = static_cast<size_t>(out - in) / element;
    for (size_t i = 0; i < out_bytes / element; ++i) {
      const uint64_t bits = pattern.input_element(rank_, first + i);
      std::memcpy(out + i * element, &bits, element);
    }
  }

  tuttiResult_t call(const Pattern& pattern, const std::byte* in, std::byte* out) {
    const tools::CallShape& s = case_->shape;
    const auto type = static_cast<tuttiDataType_t>(s.type);
    if (case_->grouped) return exchange_all(in, out, type);
    switch (s.collective) {
      case Collective::AllReduce:
        return with_op(pattern,
                       [&](tuttiRedOp_t op) { return tuttiAllReduce(in, out, s.count, type, op, comm_, nullptr); });
      case Collective::Reduce:
        return with_op(
            pattern, [&](tuttiRedOp_t op) { return tuttiReduce(in, out, s.count, type, op, s.root, comm_, nullptr); });
      case Collective::ReduceScatter:
        return with_op(pattern,
                       [&](tuttiRedOp_t op) { return tuttiReduceScatter(in, out, s.count, type, op, comm_, nullptr); });
      case Collective::AllGather:
        return tuttiAllGather(in, out, s.count, type, comm_, nullptr);
      case Collective::AllToAll:
        return tuttiAllToAll(in, out, s.count, type, comm_, nullptr);
      case Collective::Broadcast:
        return tuttiBroadcast(in, out, s.count, type, s.root, comm_, nullptr);
      case Collective::Gather:
        return tuttiGather(in, out, s.count, type, s.root, comm_, nullptr);
      case Collective::Scatter:
        return tuttiScatter(in, out, s.count, type, s.root, comm_, nullptr);
      case Collective::SendRecv:
        return pass_on(in, out, type);
      case Collective::Barrier:
        break;
    }
    return tuttiInternalError;
  }

  template <class Call>
  tuttiResult_t with_op(const Pattern& pattern, const Call& call) {
    const tools::CallShape& s = case_->shape;
    if (s.op != Op::PreMulSum) return call(static_cast<tuttiRedOp_t>(s.op));
    const uint64_t scalar = pattern.scalar(rank_);
    tuttiRedOp_t op = 0;
    tuttiResult_t result = tuttiRedOpCreatePreMulSum(&op, &scalar, static_cast<tuttiDataType_t>(s.type), comm_);
    if (result != tuttiSuccess) return result;
    result = call(op);
    const tuttiResult_t destroyed = tuttiRedOpDestroy(op, comm_);
    return result != tuttiSuccess ? result : destroyed;
  }

  tuttiResult_t pass_on(const std::byte* in, std::byte* out, tuttiDataType_t type) {
    const int n = case_->shape.ranks, next = (rank_ + 1) % n, prev = (rank_ + n - 1) % n;
    tuttiGroupStart();
    const tuttiResult_t sent = tuttiSend(in, case_->shape.count, type, next, comm_, nullptr);
    const tuttiResult_t received = tuttiRecv(out, case_->shape.count, type, prev, comm_, nullptr);
    const tuttiResult_t ended = tuttiGroupEnd();
    return std::max({sent, received, ended});
  }

  /// Every block in two parts of different lengths, so that a pair of ranks has two transfers each way.
  tuttiResult_t exchange_all(const std::byte* in, std::byte* out, tuttiDataType_t type) {
    const size_t count = case_->shape.count, element = size_of(case_->shape.type), front = count / 3;
    tuttiResult_t worst = tuttiSuccess;
    tuttiGroupStart();
    for (int peer = 0; peer < case_->shape.ranks; ++peer) {
      const size_t block = static_cast<size_t>(peer) * count * element, rest = block + front * element;
      worst = std::max(worst, tuttiSend(in + block, front, type, peer, comm_, nullptr));
      worst = std::max(worst, tuttiSend(in + rest, count - front, type, peer, comm_, nullptr));
      worst = std::max(worst, tuttiRecv(out + block, front, type, peer, comm_, nullptr));
      worst = std::max(worst, tuttiRecv(out + rest, count - front, type, peer, comm_, nullptr));
    }
    return std::max(worst, tuttiGroupEnd());
  }

  size_t capacity_;
  GuardedBuffer::Kind kind_;
  int rank_;
  tuttiComm_t comm_;
  Board& board_;
  ShiftedBuffer in_, out_;
  std::shared_ptr<tools::ValueTables> tables_ = std::make_shared<tools::ValueTables>();
  std::optional<Pattern> pattern_;
  tools::CallShape made_for_;
  const Case* case_ = nullptr;
  size_t turn_ = 0;
};

}  // namespace

void report(Findings& findings, Collective row, const std::string& text) {
  ++findings.wrong[static_cast<size_t>(row)];
  if (findings.first[0] != 0) return;
  const size_t length = std::min(text.size(), sizeof findings.first - 1);
  std::memcpy(findings.first, text.data(), length);
}

namespace {

void leave(int rank, tuttiComm_t comm, Collective last, Board& board) {
  Findings& findings = board.findings[static_cast<size_t>(rank)];
  if (tuttiCommDestroy(comm) != tuttiSuccess) {
    report(findings, last, fmt::format("rank {} left: {}", rank, tuttiGetLastError()));
  }
  findings.finished = 1;
}

}  // namespace

void run_cases(std::span<const Case> cases, int rank, tuttiComm_t comm, Board& board, bool mapped) {
  using Kind = GuardedBuffer::Kind;
  RankUnderTest under_test(cases, rank, comm, board, mapped ? Kind::Mapped : Kind::Plain);
  Collective last = Collective::Barrier;
  for (const Case& c : cases) {
    last = row_of(c);
    if (!under_test.run(c)) break;
  }
  leave(rank, comm, last, board);
}

void run_sums(int ranks, int rank, tuttiComm_t comm, Board& board) {
  Findings& findings = board.findings[static_cast<size_t>(rank)];
  for (const Collective collective : {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce}) {
    ++findings.cases[static_cast<size_t>(collective)];
    const std::string wrong = test::deviation_from_canonical(collective, ranks, rank, comm);
    if (!wrong.empty()) report(findings, collective, fmt::format("rank {}: {}", rank, wrong));
  }
  leave(rank, comm, Collective::Reduce, board);
}

}  // namespace tutti::conformance
