#include "tools/tune/measure.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/bytes.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/private_file.hpp"
#include "capi/handles.hpp"
#include "select/measured_on.hpp"
#include "select/plausible.hpp"
#include "tools/gather.hpp"
#include "tools/output_file.hpp"
#include "tools/perf/estimate.hpp"
#include "tools/progress.hpp"
#include "tools/tune/gpus.hpp"
#include "tools/tune/host_links.hpp"
#include "tools/tune/timing.hpp"
#include "topo/detect.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

constexpr size_t kMaxTask = size_t{16} << 20;  // bytes of its text

/// So many calls, for time_of().
template <class Call>
auto repeated(Call call) {
  return [call](uint64_t calls) {
    for (uint64_t i = 0; i < calls; ++i) call();
  };
}

/// Buffers for the largest cell.
class Bench {
 public:
  Bench(Communicator& comm, const std::vector<Cell>& cells) : comm_(comm) {
    const uint64_t count = buffer_bytes(cells, comm.size()) / sizeof(float);
    in_.assign(count, 1);
    out_.assign(count, 0);
  }

  double measure(const Cell& cell) {
    return time_of(comm_, repeated([&] { call(cell.collective, cell.bytes / sizeof(float)); }));
  }

 private:
  void call(Collective collective, size_t count) {
    const float* const in = in_.data();
    float* const out = out_.data();
    tuttiComm_t const comm = comm_.handle();
    constexpr tuttiDataType_t kType = tuttiFloat32;
    switch (collective) {
      case Collective::AllReduce:
        return check(tuttiAllReduce(in, out, count, kType, tuttiSum, comm, nullptr));
      case Collective::AllGather:
        return check(tuttiAllGather(in, out, count, kType, comm, nullptr));
      case Collective::ReduceScatter:
        return check(tuttiReduceScatter(in, out, count, kType, tuttiSum, comm, nullptr));
      case Collective::AllToAll:
        return check(tuttiAllToAll(in, out, count, kType, comm, nullptr));
      case Collective::Broadcast:
        return check(tuttiBroadcast(in, out, count, kType, 0, comm, nullptr));
      case Collective::Reduce:
        return check(tuttiReduce(in, out, count, kType, tuttiSum, 0, comm, nullptr));
      case Collective::Gather:
        return check(tuttiGather(in, out, count, kType, 0, comm, nullptr));
      case Collective::Scatter:
        return check(tuttiScatter(in, out, count, kType, 0, comm, nullptr));
      default:
        return check(tuttiBarrier(comm, nullptr));
    }
  }

  Communicator& comm_;
  std::vector<float> in_, out_;
};

/// "tutti tune [#####               ] 25 %: all_reduce ring 64K; about 40 s left".
std::string progress_text(const Task& task, double done, const Cell& cell) {
  constexpr size_t kWidth = 20;
  const double part = std::clamp(done / task.all, 0.0, 1.0);
  const auto marks = static_cast<size_t>(part * kWidth);
  const double passed = wall_clock() - task.began;
  const std::string left =
      done > 0.02 * task.all ? fmt::format("; about {} left", rough_time(passed / part * (1 - part))) : "";
  return fmt::format("tutti tune [{}{}] {:.0f} %: {} {} {}{}", std::string(marks, '#'),
                     std::string(kWidth - marks, ' '), part * 100, name_of(cell.collective), name_of(cell),
                     to_text(Bytes{cell.bytes}), left);
}

template <class Bench>
void measure_cells(Communicator& comm, const Task& task, Bench bench) {
  OutputFile results;
  std::optional<Progress> progress;
  if (comm.rank() == 0) {
    results = OutputFile("", task.results, true);
    progress.emplace();
  }
  double done = task.done;
  for (const Cell& cell : task.cells) {
    if (progress) progress->show(progress_text(task, done, cell));
    const double seconds = bench.measure(cell);
    done += effort_of(cell);
    if (results) results.write(line_of(cell, seconds));
  }
}

/// Seconds of one message of this many bytes between rank 0 and a peer; other ranks wait.
double one_way(Communicator& comm, int peer, std::vector<float>& data, size_t count) {
  const auto call = [&] {
    const auto send = [&](int to) { check(tuttiSend(data.data(), count, tuttiFloat32, to, comm.handle(), nullptr)); };
    const auto receive = [&](int from) {
      check(tuttiRecv(data.data(), count, tuttiFloat32, from, comm.handle(), nullptr));
    };
    if (comm.rank() == 0) send(peer), receive(peer);
    if (comm.rank() == peer) receive(0), send(0);
  };
  return time_of(comm, repeated(call)) / 2;
}

constexpr size_t kLong = size_t{1} << 20;  // elements

/// The transport between rank 0 and a peer, on both.
std::string transport_to(Communicator& comm, int peer, std::vector<float>& data) {
  if (comm.rank() == 0) check(tuttiSend(data.data(), 1, tuttiFloat32, peer, comm.handle(), nullptr));
  if (comm.rank() == peer) check(tuttiRecv(data.data(), 1, tuttiFloat32, 0, comm.handle(), nullptr));
  tuttiCallInfo info{.size = sizeof info, .algorithm = "", .transport = "", .delivery = ""};
  check(tuttiCommGetLastCall(comm.handle(), &info));
  return info.transport;
}

/// What the links of this host take: the best of several tries, for others may have had the cores meanwhile.
class LinkBench {
 public:
  explicit LinkBench(Communicator& comm)
      : comm_(comm),
        data_(kLong, 1),
        ranks_(static_cast<size_t>(comm.size())),
        small_(ranks_, kNever),
        large_(ranks_, kNever) {}

  void measure() {
    for (size_t peer = 1; peer < ranks_; ++peer) {
      small_[peer] = std::min(small_[peer], one_way(comm_, static_cast<int>(peer), data_, 1));
    }
    for (size_t peer = 1; peer < ranks_; ++peer) {
      large_[peer] = std::min(large_[peer], one_way(comm_, static_cast<int>(peer), data_, kLong));
    }
  }

  /// Seconds per byte: what folding adds to a reduce-scatter, compared with an all-to-all of as many bytes.
  double gamma() {
    fold();
    return (reduce_ - exchange_) / (static_cast<double>(ranks_ - 1) * kFolded * sizeof(float));
  }

  /// α and β of the slowest pair of ranks. A long message in less time than a short one has none of a β.
  select::MeasuredLink slowest() const {
    select::MeasuredLink slowest;
    for (size_t peer = 1; peer < ranks_; ++peer) {
      slowest.alpha = std::max(slowest.alpha, small_[peer]);
      slowest.beta = std::max(slowest.beta, (large_[peer] - small_[peer]) / static_cast<double>(kLong * sizeof(float)));
    }
    return slowest;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr size_t kFolded = 16 << 10;  // elements

  void fold() {
    std::vector<float> data(kFolded), blocks(ranks_ * kFolded, 1), others(ranks_ * kFolded);
    tuttiComm_t const comm = comm_.handle();
    const auto reduce = repeated(
        [&] { check(tuttiReduceScatter(blocks.data(), data.data(), kFolded, tuttiFloat32, tuttiSum, comm, nullptr)); });
    const auto exchange =
        repeated([&] { check(tuttiAllToAll(blocks.data(), others.data(), kFolded, tuttiFloat32, comm, nullptr)); });
    reduce_ = std::min(reduce_, time_of(comm_, reduce));
    exchange_ = std::min(exchange_, time_of(comm_, exchange));
  }

  Communicator& comm_;
  std::vector<float> data_;
  size_t ranks_;
  std::vector<double> small_, large_;  // seconds, by peer of rank 0
  double reduce_ = kNever, exchange_ = kNever;
};

/// The machines of all ranks; read_partial() keeps each kind once.
void write_machines(Communicator& comm, const std::string& results) {
  const json mine = select::to_json(select::measured_machine(topo::local_topology()));
  const std::vector<std::string> machines = gather(comm, mine.dump());
  if (comm.rank() != 0) return;
  OutputFile file("", results, true);
  for (const std::string& machine : machines) file.write(line_of({{"machine", json::parse(machine)}}));
}

/// Each pair of hosts; and the slowest one, for hosts that are not among them.
void measure_network(Communicator& comm, const Task& task) {
  const plan::Grouping& groups = *capi::communicator_of(comm.handle())->inputs().groups;
  if (groups.groups() == 1) {
    throw_error(Code::InvalidUsage, "all ranks find themselves on one host: use -n in place of --hosts");
  }
  select::MeasuredHosts hosts = measure_hosts(comm);
  std::vector<float> data(1);
  const std::string kind = transport_to(comm, groups.members(groups.group_of(0) == 0 ? 1 : 0).front(), data);
  if (comm.rank() != 0) return;
  hosts.transport = kind;
  select::MeasuredLink slowest;
  for (const select::MeasuredPair& pair : hosts.pairs) {
    slowest.alpha = std::max(slowest.alpha, pair.alpha);
    slowest.beta = std::max(slowest.beta, pair.beta);
  }
  OutputFile results("", task.results, true);
  if (const std::string doubts = select::doubts_of(hosts); !doubts.empty() && !task.doubtful) {
    return results.write(line_of_doubt(task.links, "no two figures that agree of " + doubts));
  }
  results.write(line_of("link", kind, slowest));
  const auto same =
      std::find_if(hosts.pairs.begin(), hosts.pairs.end(), [](const auto& pair) { return pair.a == pair.b; });
  if (same == hosts.pairs.end()) {
    results.write(line_of({{"hosts", to_json(hosts)}}));
  } else {
    fmt::print(stderr,
               "tutti tune: two of the hosts have the same name, {}: the profile keeps the slowest link for all; links "
               "of single hosts are kept by name, so give each host its own\n",
               same->a);
  }
  results.write(line_of(capi::communicator_of(comm.handle())->inputs()));
}

void measure_links(Communicator& comm, const Task& task) {
  if (task.links == "hosts") return measure_network(comm, task);
  constexpr int kTries = 5;
  const select::CostInputs& inputs = capi::communicator_of(comm.handle())->inputs();
  LinkBench bench(comm);
  std::string why, busy;
  const auto good = [&] { return why.empty() && busy.empty(); };
  for (int i = 0; i < kTries && (i == 0 || !good()); ++i) {  // times are the slowest rank's: all see the same
    bench.measure();
    why = select::implausible(bench.slowest());
    busy = select::disturbed(bench.slowest(), inputs.oversubscription);
  }
  const bool folds = task.links == "processes" && why.empty();
  double gamma = 0;
  for (int i = 0; folds && i < kTries && !select::is_plausible_fold(gamma); ++i) gamma = bench.gamma();
  if (comm.rank() != 0) return;
  OutputFile results("", task.results, true);
  if (!good()) results.write(line_of_doubt(task.links, why.empty() ? busy : why));
  if (!why.empty()) return;
  results.write(line_of("link", task.links, bench.slowest()));
  if (select::is_plausible_fold(gamma)) results.write(line_of({{"gamma", gamma}}));
  if (folds) results.write(line_of(inputs));
}

/// On each other host, its first rank writes the profile.
void keep_profile(Communicator& comm, const Task& task) {
  if (comm.rank() != 0 && env().local_rank.value_or(0) == 0) {
    const std::string path = select::profile_path(task.place);
    if (path.empty())
      throw_error(Code::InvalidUsage, "there is no place for the profile on this host: set HOME, or name a file by -o");
    select::save_profile(select::parse_profile(task.profile, "rank 0's profile"), path);
  }
  check(tuttiBarrier(comm.handle(), nullptr));
}

}  // namespace

Task shared_task(Communicator& comm, const std::string& path) {
  std::string text;
  if (comm.rank() == 0) {
    const auto found = read_file(path, kMaxTask, true);
    if (!found) {
      throw_error(Code::InvalidArgument,
                  "there is no file {} here: name the host first on which you start this command", path);
    }
    text = *found;
  }
  uint64_t size = text.size();
  comm.broadcast(std::span<uint64_t>(&size, 1), 0);
  text.resize(size);
  comm.broadcast(std::span<char>(text), 0);
  return json::parse(text).get<Task>();
}

void work_on(Communicator& comm, const Task& task) {
  if (!task.profile.empty()) return keep_profile(comm, task);
  if (!task.links.empty()) write_machines(comm, task.results);
  if (task.links == "GPUs") return measure_gpu_links(comm, task.results, task.sizes.largest);
  if (task.links == "candidates") return list_candidates(comm, task.results, task.sizes, task.within);
  if (!task.links.empty()) return measure_links(comm, task);
  if (task.on_gpus) return measure_cells(comm, task, GpuBench(comm, task.cells));
  measure_cells(comm, task, Bench(comm, task.cells));
}

}  // namespace tutti::tools
