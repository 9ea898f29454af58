#include "attack/play.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

namespace tutti::attack {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// One write per line, so that lines of several threads do not mix.
void tell(const std::string& line) {
  const std::string whole = line.substr(0, 3800) + "\n";
  if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) _exit(97);
}

/// Element i of rank `rank`'s input in line `number`: small, so that every sum is exact.
int64_t input(const Line& line, int rank, size_t i) {
  const size_t mixed = static_cast<size_t>(rank) * 7 + line.number * 5 + i * 3 + i / 61;
  return line.op == tuttiProd ? 1 + static_cast<int64_t>(mixed % 2) : static_cast<int64_t>(mixed % 11);
}

int64_t fold(const Line& line, int64_t a, int64_t b) {
  if (line.op == tuttiProd) return a * b;
  if (line.op == tuttiMax) return std::max(a, b);
  if (line.op == tuttiMin) return std::min(a, b);
  return a + b;
}

int64_t folded(const Line& line, int ranks, size_t i) {
  int64_t value = input(line, 0, i);
  for (int r = 1; r < ranks; ++r) value = fold(line, value, input(line, r, i));
  return value;
}

/// A buffer of either kind, poisoned.
class Buffer {
 public:
  Buffer(size_t bytes, bool mapped) : mapped_(mapped) {
    void* memory = nullptr;
    if (mapped) {
      if (tuttiMemAlloc(&memory, bytes + 64) != tuttiSuccess) throw std::runtime_error(tuttiGetLastError());
    } else {
      memory = std::malloc(bytes + 64);
    }
    bytes_ = static_cast<unsigned char*>(memory);
    std::memset(bytes_, 0xa5, bytes + 64);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { mapped_ ? static_cast<void>(tuttiMemFree(bytes_)) : std::free(bytes_); }
  unsigned char* data() { return bytes_; }

 private:
  bool mapped_;
  unsigned char* bytes_;
};

/// One line as run by one rank: its buffers, the call, and the expected output.
class Shape {
 public:
  Shape(const Line& line, int ranks, int me) : line_(line), ranks_(ranks), me_(me), root_(line.root % ranks) {
    const size_t n = static_cast<size_t>(ranks), c = line.count;
    for (int r = 0; r < ranks; ++r) {
      counts_.push_back(c + static_cast<size_t>(r % 3));
      to_.push_back(between(me, r));
      from_.push_back(between(r, me));
    }
    switch (line.call) {
      case Call::AllReduce:
      case Call::Broadcast:
      case Call::Reduce:
      case Call::Exchange:
        in_ = out_ = c;
        break;
      case Call::ReduceScatter:
      case Call::Scatter:
        in_ = n * c, out_ = c;
        break;
      case Call::AllGather:
      case Call::Gather:
        in_ = c, out_ = n * c;
        break;
      case Call::AllToAll:
        in_ = out_ = n * c;
        break;
      case Call::AllGatherV:
        in_ = counts_[static_cast<size_t>(me)], out_ = sum(counts_);
        break;
      case Call::ReduceScatterV:
        in_ = sum(counts_), out_ = counts_[static_cast<size_t>(me)];
        break;
      case Call::AllToAllV:
        in_ = sum(to_), out_ = sum(from_);
        break;
      default:
        break;
    }
  }

  size_t in() const { return in_; }
  size_t out() const { return out_; }
  bool can_be_in_place() const { return line_.call == Call::AllReduce || line_.call == Call::Broadcast; }
  bool receives() const { return (line_.call != Call::Reduce && line_.call != Call::Gather) || me_ == root_; }

  int64_t expected(size_t i) const {
    const size_t c = line_.count, me = static_cast<size_t>(me_);
    switch (line_.call) {
      case Call::AllReduce:
      case Call::Reduce:
        return folded(line_, ranks_, i);
      case Call::ReduceScatter:
        return folded(line_, ranks_, me * c + i);
      case Call::ReduceScatterV:
        return folded(line_, ranks_, std::accumulate(counts_.begin(), counts_.begin() + me_, i));
      case Call::AllGather:
      case Call::Gather:
        return input(line_, static_cast<int>(i / c), i % c);
      case Call::AllToAll:
        return input(line_, static_cast<int>(i / c), me * c + i % c);
      case Call::Broadcast:
        return input(line_, root_, i);
      case Call::Scatter:
        return input(line_, root_, me * c + i);
      case Call::Exchange:
        return input(line_, (me_ + ranks_ - 1) % ranks_, i);
      case Call::AllGatherV: {
        size_t r = 0;
        for (; i >= counts_[r]; ++r) i -= counts_[r];
        return input(line_, static_cast<int>(r), i);
      }
      default: {  // all_to_all_v
        size_t r = 0;
        for (; i >= from_[r]; ++r) i -= from_[r];
        size_t before = 0;
        for (int d = 0; d < me_; ++d) before += between(static_cast<int>(r), d);
        return input(line_, static_cast<int>(r), before + i);
      }
    }
  }

  tuttiResult_t make(tuttiComm_t comm, const void* in, void* out) const {
    const size_t c = line_.count;
    const auto type = line_.type;
    const auto op = line_.op;
    switch (line_.call) {
      case Call::AllReduce:
        return tuttiAllReduce(in, out, c, type, op, comm, nullptr);
      case Call::ReduceScatter:
        return tuttiReduceScatter(in, out, c, type, op, comm, nullptr);
      case Call::AllGather:
        return tuttiAllGather(in, out, c, type, comm, nullptr);
      case Call::AllToAll:
        return tuttiAllToAll(in, out, c, type, comm, nullptr);
      case Call::Broadcast:
        return tuttiBroadcast(in, out, c, type, root_, comm, nullptr);
      case Call::Reduce:
        return tuttiReduce(in, out, c, type, op, root_, comm, nullptr);
      case Call::Gather:
        return tuttiGather(in, out, c, type, root_, comm, nullptr);
      case Call::Scatter:
        return tuttiScatter(in, out, c, type, root_, comm, nullptr);
      case Call::Barrier:
        return tuttiBarrier(comm, nullptr);
      case Call::AllGatherV:
        return tuttiAllGatherV(in, in_, out, counts_.data(), nullptr, type, comm, nullptr);
      case Call::ReduceScatterV:
        return tuttiReduceScatterV(in, out, counts_.data(), type, op, comm, nullptr);
      case Call::AllToAllV:
        return tuttiAllToAllV(in, to_.data(), nullptr, out, from_.data(), nullptr, type, comm, nullptr);
      case Call::Exchange:
        return exchange(comm, in, out);
      default:
        return split(comm);
    }
  }

 private:
  size_t between(int from, int to) const { return line_.count + static_cast<size_t>((from + 2 * to) % 3); }
  static size_t sum(const std::vector<size_t>& all) { return std::accumulate(all.begin(), all.end(), size_t{0}); }

  tuttiResult_t exchange(tuttiComm_t comm, const void* in, void* out) const {
    if (const auto bad = tuttiGroupStart(); bad != tuttiSuccess) return bad;
    const auto sent = tuttiSend(in, line_.count, line_.type, (me_ + 1) % ranks_, comm, nullptr);
    const auto received = tuttiRecv(out, line_.count, line_.type, (me_ + ranks_ - 1) % ranks_, comm, nullptr);
    const auto ended = tuttiGroupEnd();
    return sent != tuttiSuccess ? sent : received != tuttiSuccess ? received : ended;
  }

  static tuttiResult_t split(tuttiComm_t comm) {
    tuttiComm_t part = nullptr;
    if (const auto bad = tuttiCommSplit(comm, 0, 0, &part); bad != tuttiSuccess) return bad;
    return tuttiCommDestroy(part);
  }

  const Line& line_;
  int ranks_, me_, root_;
  size_t in_ = 0, out_ = 0;
  std::vector<size_t> counts_, to_, from_;  // of all_gather_v and reduce_scatter_v; of all_to_all_v
};

template <class T>
int run_typed(const Line& line, tuttiComm_t comm, int ranks, int me) {
  const Shape shape(line, ranks, me);
  const bool in_place = line.in_place && shape.can_be_in_place();
  Buffer out_memory(std::max(shape.in(), shape.out()) * sizeof(T), line.mapped);
  Buffer in_memory(in_place ? 0 : shape.in() * sizeof(T), line.mapped);
  T* out = reinterpret_cast<T*>(out_memory.data());
  T* in = in_place ? out : reinterpret_cast<T*>(in_memory.data());
  for (size_t i = 0; i < shape.in(); ++i) in[i] = static_cast<T>(input(line, me, i));
  const tuttiResult_t result = shape.make(comm, in, out);
  if (result != tuttiSuccess) return result;
  for (size_t i = 0; shape.receives() && i < shape.out(); ++i) {
    if (out[i] != static_cast<T>(shape.expected(i))) return kWrongData;
  }
  return result;
}

int run(const Line& line, tuttiComm_t comm, int ranks, int me) {
  switch (line.type) {
    case tuttiFloat32:
      return run_typed<float>(line, comm, ranks, me);
    case tuttiFloat64:
      return run_typed<double>(line, comm, ranks, me);
    case tuttiInt32:
      return run_typed<int32_t>(line, comm, ranks, me);
    case tuttiInt64:
      return run_typed<int64_t>(line, comm, ranks, me);
    default:
      return run_typed<uint8_t>(line, comm, ranks, me);
  }
}

/// One rank and its communicators.
class Player {
 public:
  Player(const Program& program, int rank) : program_(program), rank_(rank) {}

  void run_all(const tuttiUniqueId& id) {
    comms_.resize(program_.colours.size() + 1);
    report(-1, [&] { return tuttiCommInitRank(comms_.data(), program_.ranks, id, rank_); });
    for (size_t slot = 1; slot < comms_.size() && comms_[0] != nullptr; ++slot) {
      const int colour = program_.colours[slot - 1][static_cast<size_t>(rank_)];
      report(-1, [&] { return tuttiCommSplit(comms_[0], colour, 0, &comms_[slot]); });
    }
    int index = 0;
    for (const Line& line : lines_of(program_, rank_)) make(index++, line);
    for (size_t slot = comms_.size(); slot-- > 0;) report(index++, [&] { return destroy(slot); });
  }

 private:
  template <class Call>
  void report(int index, const Call& call) {
    const double start = now();
    const int code = call();
    const std::string text = code == tuttiSuccess || code == kWrongData ? "" : tuttiGetLastError();
    tell(fmt::format("line {} {} {} {:.3f} {}", rank_, index, code, now() - start, text));
  }

  int destroy(size_t slot) {
    tuttiComm_t comm = std::exchange(comms_[slot], nullptr);
    return comm == nullptr ? tuttiSuccess : tuttiCommDestroy(comm);
  }

  void make(int index, const Line& line) {
    const auto slot = static_cast<size_t>(line.slot);
    if (comms_[slot] == nullptr) return report(index, [] { return tuttiSuccess; });
    const auto us = members(program_, line.slot, rank_);
    const int me = static_cast<int>(std::find(us.begin(), us.end(), rank_) - us.begin());
    report(index, [&]() -> int {
      switch (line.act) {
        case Line::Act::Make:
          return run(line, comms_[slot], static_cast<int>(us.size()), me);
        case Line::Act::Destroy:
          return destroy(slot);
        case Line::Act::Abort:
          return tuttiCommAbort(comms_[slot]);
        case Line::Act::Exit:
          _exit(0);
        case Line::Act::Delay:
          usleep(1500000);
          return tuttiSuccess;
        default:
          signal_soon(line.act == Line::Act::Kill ? SIGKILL : SIGSTOP);
          return tuttiSuccess;
      }
    });
  }

  /// In the middle of the next call, if that takes as long.
  void signal_soon(int number) const {
    const auto delay = static_cast<unsigned>(program_.seed % 4000);
    std::thread([=] {
      usleep(delay);
      kill(getpid(), number);
    }).detach();
  }

  const Program& program_;
  int rank_;
  std::vector<tuttiComm_t> comms_;  // by slot
};

tuttiUniqueId id_from(const std::string& hex) {
  tuttiUniqueId id;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    id.bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

}  // namespace

int play(const Program& program, int process, const std::string& id) {
  tuttiUniqueId raw;
  if (id.empty()) {
    if (tuttiGetUniqueId(&raw) != tuttiSuccess) return 2;
    std::string hex;
    for (const unsigned char byte : raw.bytes) hex += fmt::format("{:02x}", byte);
    tell("id " + hex);
  } else {
    raw = id_from(id);
  }
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < program.ranks; ++rank) {
    if (program.process_of[static_cast<size_t>(rank)] != process) continue;
    ranks.emplace_back([&, rank] { Player(program, rank).run_all(raw); });
  }
  for (std::thread& rank : ranks) rank.join();
  return 0;
}

}  // namespace tutti::attack
