#include "fault/script.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "fault/job.hpp"
#include "fault/resources.hpp"
#include "tutti/types.hpp"

namespace tutti::fault {
namespace {

using test::Line;

tuttiDataType_t type_named(const std::string& name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (name == name_of(static_cast<DType>(i))) return static_cast<tuttiDataType_t>(i);
  }
  throw std::invalid_argument("no type " + name);
}

tuttiRedOp_t op_named(const std::string& name) {
  for (int i = 0; i < kOps; ++i) {
    if (name == name_of(static_cast<Op>(i))) return i;
  }
  throw std::invalid_argument("no operator " + name);
}

class Player {
 public:
  Player(int ranks, int rank, Line& test) : ranks_(ranks), rank_(rank), test_(test) {}

  void run(const tuttiUniqueId& id, const std::string& script) {
    std::istringstream lines(script);
    std::string line;
    comms_.push_back(nullptr);
    int number = 0;
    if (script.starts_with("hold")) {
      std::getline(lines, line);
      go();
      ++number;
    }
    if (script.starts_with("tells")) {
      std::getline(lines, line);
      tell(kBeginsToJoin, tuttiSuccess, now());
      ++number;
    }
    const bool blocks = !script.starts_with("nonblocking");
    if (!blocks) {
      std::getline(lines, line);
      ++number;
    }
    tell(-1, blocks ? tuttiCommInitRank(&comms_[0], ranks_, id, rank_) : join_in_background(id), now());
    for (; std::getline(lines, line); ++number) {
      const double start = now();
      tell(number, make(line), start);
    }
  }

 private:
  /// The test's word, one for each rank of the process that waits.
  bool go() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    return test_.receive(60) == "go";
  }

  tuttiResult_t join_in_background(const tuttiUniqueId& id) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    tuttiResult_t result = tuttiCommInitRankConfig(&comms_[0], ranks_, id, rank_, &config);
    while (result == tuttiInProgress) {
      std::this_thread::yield();
      tuttiCommGetAsyncError(comms_[0], &result);
    }
    return result;
  }

  void tell(int number, tuttiResult_t result, double start) {
    static std::mutex mutex;
    const double end = now();
    std::string text = result == tuttiSuccess ? std::exchange(note_, "") : tuttiGetLastError();
    const std::lock_guard lock(mutex);
    test_.tell(
        fmt::format("{} {} {} {:.9f} {:.6f} {}", rank_, number, static_cast<int>(result), end, end - start, text));
  }

  /// A buffer for the next call. All buffers are kept, since groups use theirs later.
  void* buffer(bool out, size_t elements, bool mapped) {
    if (mapped) {
      auto& all = mapped_[out];
      if (all.empty() || all.back().size() < elements * 8) all.emplace_back(elements * 8);
      return all.back().data();
    }
    auto& all = memory_[out];
    if (all.empty() || all.back().size() < elements * 8) all.emplace_back(elements * 8);
    return all.back().data();
  }

  tuttiResult_t split(int colour, int key) {
    comms_.push_back(nullptr);
    return tuttiCommSplit(comms_[current_], colour, key, &comms_.back());
  }

  tuttiResult_t splits(int number) {
    for (int i = 0; i < number; ++i) {
      const int colour = i % 3 == 0 ? rank_ % 2 : 0, key = i % 3 == 1 ? -rank_ : rank_;
      int in = rank_, out = 0;
      tuttiResult_t result = split(colour, key);
      if (result == tuttiSuccess) result = tuttiAllReduce(&in, &out, 1, tuttiInt32, tuttiSum, comms_.back(), nullptr);
      if (result != tuttiSuccess) return result;
    }
    return tuttiSuccess;
  }

  /// An all-reduce whose sums are checked.
  tuttiResult_t sum(tuttiComm_t comm, size_t count) {
    int ranks = 0, rank = 0;
    tuttiCommCount(comm, &ranks);
    tuttiCommUserRank(comm, &rank);
    std::vector<int>&in = summed_[0], &out = summed_[1];
    in.resize(std::max(in.size(), count));
    out.assign(std::max(out.size(), count), -1);
    for (size_t i = 0; i < count; ++i) in[i] = rank + static_cast<int>(i % 1000);
    const tuttiResult_t result = tuttiAllReduce(in.data(), out.data(), count, tuttiInt32, tuttiSum, comm, nullptr);
    bool right = true;
    for (size_t i = 0; i < count; ++i) {
      right = right && out[i] == ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i % 1000);
    }
    return result == tuttiSuccess && !right ? tuttiInternalError : result;
  }

  tuttiResult_t note_resources() {
    const Resources found = resources_of_process();
    note_ = fmt::format("{} {} {}", found.resident, found.descriptors, found.arenas);
    return tuttiSuccess;
  }

  tuttiResult_t destroy_all() {
    tuttiResult_t first = tuttiSuccess;
    for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) {
      const tuttiResult_t result = tuttiCommDestroy(*comm);
      if (first == tuttiSuccess) first = result;
    }
    return first;
  }

  tuttiResult_t make(const std::string& line) {
    std::istringstream words(line);
    std::string name, type_name, op_name;
    size_t count = 0;
    int peer = 0;
    words >> name;
    if (name == "repeat") return repeat(line.substr(line.find(' ') + 1));
    if (name == "use") {
      words >> current_;
      return current_ < comms_.size() ? tuttiSuccess : tuttiInvalidUsage;
    }
    if (name == "split") {
      words >> count >> peer;
      return split(static_cast<int>(count), peer);
    }
    if (name == "splits") {
      words >> count;
      return splits(static_cast<int>(count));
    }
    if (name == "destroy_all") return destroy_all();
    if (name == "shrink") {
      std::vector<int> excluded;
      while (words >> peer) excluded.push_back(peer);
      comms_.push_back(nullptr);
      return tuttiCommShrink(comms_[current_], excluded.data(), static_cast<int>(excluded.size()), &comms_.back());
    }
    const tuttiComm_t comm = comms_[current_];
    if (name == "barrier") return tuttiBarrier(comm, nullptr);
    if (name == "destroy") return tuttiCommDestroy(comm);
    if (name == "suspend") return tuttiCommSuspend(comm);
    if (name == "resume") return tuttiCommResume(comm);
    if (name == "resources") return note_resources();
    if (name == "finalize") return tuttiCommFinalize(comm);
    if (name == "abort") return tuttiCommAbort(comm);
    if (name == "revoke") return tuttiCommRevoke(comm);
    if (name == "until_revoked") return until_revoked(comm);
    if (name == "start") return tuttiGroupStart();
    if (name == "end") return tuttiGroupEnd();
    if (name == "exit") _exit(0);
    if (name == "kill") std::raise(SIGKILL);
    if (name == "wait") return go() ? tuttiSuccess : tuttiInternalError;
    if (name == "fill") return fill();
    if (name == "intact") return intact();
    if (const auto result = call_on_window(name, words, line.ends_with(" mapped"))) return *result;
    words >> count >> type_name;
    if (name == "sum") return sum(comm, count);
    const tuttiDataType_t type = type_named(type_name);
    const size_t all = count * static_cast<size_t>(ranks_);
    const bool mapped = line.ends_with(" mapped");  // tuttiMemAlloc's buffers
    void *in = buffer(false, all, mapped), *out = buffer(true, all, mapped);
    if (name == "all_gather") return tuttiAllGather(in, out, count, type, comm, nullptr);
    if (name == "all_to_all") return tuttiAllToAll(in, out, count, type, comm, nullptr);
    if (name.find("reduce") != std::string::npos) words >> op_name;
    const tuttiRedOp_t op = op_name.empty() ? tuttiSum : op_named(op_name);
    if (name == "all_reduce") return tuttiAllReduce(in, out, count, type, op, comm, nullptr);
    if (name == "reduce_scatter") return tuttiReduceScatter(in, out, count, type, op, comm, nullptr);
    words >> peer;
    if (name == "reduce") return tuttiReduce(in, out, count, type, op, peer, comm, nullptr);
    if (name == "broadcast") return tuttiBroadcast(in, out, count, type, peer, comm, nullptr);
    if (name == "gather") return tuttiGather(in, out, count, type, peer, comm, nullptr);
    if (name == "scatter") return tuttiScatter(in, out, count, type, peer, comm, nullptr);
    if (name == "send") return tuttiSend(in, count, type, peer, comm, nullptr);
    if (name == "recv") return tuttiRecv(out, count, type, peer, comm, nullptr);
    throw std::invalid_argument("no call " + name);
  }

  /// Empty: it is another call.
  std::optional<tuttiResult_t> call_on_window(const std::string& name, std::istringstream& words, bool mapped) {
    size_t count = 0;
    int peer = 0;
    if (name == "deregister") return tuttiWindowDeregister(window_);
    if (name == "window" || name.starts_with("put")) words >> count;
    if (name == "window_null") {
      words >> count;
      return tuttiWindowRegister(comms_[current_], nullptr, count * 8, &window_);
    }
    if (name == "window") {
      void* const part = buffer(true, count, mapped);
      std::memset(part, kPart, count * 8);
      return tuttiWindowRegister(comms_[current_], part, count * 8, &window_);
    }
    if (name == "put" || name == "put_signal") {
      words >> peer;
      void* const in = buffer(false, count, mapped);
      return name == "put" ? tuttiPut(in, count * 8, peer, 0, window_, nullptr)
                           : tuttiPutSignal(in, count * 8, peer, 0, 0, window_, nullptr);
    }
    if (name == "get") {
      words >> count >> peer;
      auto* const into = static_cast<unsigned char*>(buffer(false, count, mapped));
      std::memset(into, kPattern, count * 8);
      const tuttiResult_t result = tuttiGet(into, count * 8, peer, 0, window_, nullptr);
      const bool right = into[0] == kPart && std::memcmp(into, into + 1, count * 8 - 1) == 0;
      return result == tuttiSuccess && !right ? tuttiInternalError : result;
    }
    if (name != "signal" && name != "wait_signal" && name != "flush") return std::nullopt;
    words >> peer;
    if (name == "signal") return tuttiSignal(peer, 0, window_, nullptr);
    if (name == "flush") return tuttiFlush(peer, window_, nullptr);
    return tuttiWaitSignal(peer, 0, 1, window_, nullptr);
  }

  static tuttiResult_t until_revoked(tuttiComm_t comm) {
    tuttiResult_t result = tuttiPeerFailed;
    for (const double end = now() + 10; result == tuttiPeerFailed && now() < end;) result = tuttiBarrier(comm, nullptr);
    return result;
  }

  tuttiResult_t repeat(const std::string& line) {
    for (;;) {
      const tuttiResult_t result = make(line);
      if (result != tuttiSuccess) return result;
    }
  }

  template <class Visit>
  void each_output(Visit&& visit) {
    for (auto& memory : memory_[true]) visit(memory.data(), memory.size());
    for (auto& memory : mapped_[true]) visit(memory.data(), memory.size());
  }

  static constexpr unsigned char kPart = 0xc3;     // a window's bytes from the start; a put writes zeros
  static constexpr unsigned char kPattern = 0x5a;  // what memory is filled with afterwards

  tuttiResult_t fill() {
    each_output([](unsigned char* data, size_t bytes) { std::memset(data, kPattern, bytes); });
    return tuttiSuccess;
  }

  tuttiResult_t intact() {
    size_t touched = 0;
    each_output([&](const unsigned char* data, size_t bytes) {
      touched += bytes - static_cast<size_t>(std::count(data, data + bytes, kPattern));
    });
    return touched == 0 ? tuttiSuccess : tuttiInternalError;
  }

  int ranks_, rank_;
  Line& test_;
  std::deque<tuttiComm_t> comms_;  // the first one, and the split ones; a group sets them later
  std::string note_;               // of a line that succeeds
  size_t current_ = 0;             // the one on which calls are made
  tuttiWindow_t window_ = nullptr;
  std::array<std::vector<int>, 2> summed_;  // kept, so that the allocator keeps as much from call to call
  std::map<bool, std::deque<std::vector<unsigned char>>> memory_;
  std::map<bool, std::deque<Memory<unsigned char>>> mapped_;
};

}  // namespace

void play(int ranks, int rank, const tuttiUniqueId& id, const std::string& script, Line& test) {
  Player(ranks, rank, test).run(id, script);
}

}  // namespace tutti::fault
