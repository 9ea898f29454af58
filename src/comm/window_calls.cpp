// Registering and deregistering windows, which all ranks do.
#include <charconv>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/process_generation.hpp"
#include "comm/communicator.hpp"
#include "comm/window.hpp"
#include "control/wait_table.hpp"
#include "rma/agent.hpp"
#include "rma/rdma_part.hpp"
#include "transports/pod_text.hpp"

namespace tutti::comm {
namespace {

/// What a rank that cannot take part gives to the exchange instead of a Part: "1 the buffer is NULL".
std::string refusal_text(Code code, const std::string& why) {
  return fmt::format("{} {}", static_cast<int>(code), why);
}

[[noreturn]] void throw_refusal(Rank rank, const std::string& text) {
  int code = 0;
  const char* const end = text.data() + text.size();
  const char* const why = std::from_chars(text.data(), end, code).ptr;
  const bool is_error =
      code > static_cast<int>(Code::Ok) && code < kCodes && code != static_cast<int>(Code::InProgress);
  if (!is_error || why == end) {
    throw_error(Code::ProtocolError, "window_register(): rank {} has sent something else", rank);
  }
  throw_error(static_cast<Code>(code), "window_register(): rank {} cannot take part: {}", rank,
              transports::printable_reply(std::string(why + 1, end)));
}

constexpr char kGood = '+';                // begins what a rank that can take part gives to later exchanges
constexpr const char* kOn = "memory of ";  // … and what it gives to the first, if its part lies in a backend's memory

/// The name of the backend in whose memory parts lie, by what ranks have given to the exchange; "": that of the host.
/// If one cannot take part, or parts lie in memory of different kinds, all refuse. Empty parts go with the others.
std::string kind_of_parts(const std::vector<std::string>& all) {
  std::string kind;
  Rank first = kNoRank;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    rma::Part part;
    const bool on_host = transports::unpack(all[rank], part) && part.magic == rma::Part::kMagic;
    const bool on_backend = !on_host && all[rank].starts_with(kOn);
    if (!on_host && !on_backend) throw_refusal(static_cast<Rank>(rank), all[rank]);
    if (on_host && part.bytes == 0) continue;
    const std::string its = on_backend ? all[rank].substr(std::string_view(kOn).size()) : "";
    if (first != kNoRank && its != kind) {
      const auto text = [](const std::string& of) { return transports::printable_reply(of.empty() ? "the host" : of); };
      throw_error(Code::InvalidArgument,
                  "window_register(): rank {}'s buffer lies in memory of {}, and rank {}'s in memory of {}: a window "
                  "has one kind of memory",
                  first, text(kind), rank, text(its));
    }
    if (first == kNoRank) first = static_cast<Rank>(rank);
    kind = its;
  }
  return kind;
}

/// By rank; 0: of another host.
std::vector<int> processes_of_host(const control::Endpoint& endpoint) {
  std::vector<int> all;
  for (Rank rank = 0; rank < endpoint.ranks(); ++rank) {
    const transports::ProcessId& process = endpoint.process_id(rank);
    const bool is_here = process.host == endpoint.process_id(endpoint.rank()).host;
    all.push_back(is_here ? static_cast<int>(process.process) : 0);
  }
  return all;
}

/// Lets other ranks use the part; what they are to know of it.
rma::Part expose_part(WindowServices& services, const rma::OwnPart& own, uint64_t window, Rank rank) {
  rma::Part part = own.part();
  rma::Target::Exposed exposed = own.exposed();
  try {
    if (services.device != nullptr) rma::expose_to(*services.device, part, exposed);
  } catch (const Error& error) {
    log_warn("rank {}: other hosts send requests to its part of the window of call {}: {} cannot reach it: {}", rank,
             window, services.device->name(), error.what());
  }
  services.target->expose(window, exposed);
  return part;
}

/// Why other ranks may still write to the part; empty: they do not.
std::string close_part(rma::OwnPart& part, rma::Closed why, Rank rank) {
  if (part.close(why)) return "";
  std::string open = part.still_written();
  log_error("rank {}: {}", rank, open);
  return open;
}

}  // namespace

WindowServices::WindowServices(transports::Wireup& wireup, link::PeerRegions& regions, rma::Ends ends, bool use_cma)
    : process(process_generation()),
      target(rma::Target::open(wireup)),
      connections(wireup, regions, std::move(ends), use_cma) {
  rma::Agent::of_this_process().when_started(
      [](pid_t thread) { control::WaitTable::of_this_process().add_own_thread(thread); });
}

WindowServices::~WindowServices() {
  if (process == process_generation()) target->close();
}

std::shared_ptr<Window> Communicator::register_window(void* memory, uint64_t bytes, uint8_t backend,
                                                      const Status& refusal) {
  const Deadline deadline = begin_control_call({.registers = true});
  std::shared_ptr<Window> window;
  try {
    const std::vector<std::string> all = in_control_call([&] {
      if (windows_ == nullptr) {
        windows_ = std::make_unique<WindowServices>(
            *endpoint_, fabric_->peer_regions(),
            rma::Ends{failed_, [endpoint = endpoint_.get()](Rank peer) { return endpoint->left(peer).has_value(); }},
            fabric_->cma() != Cma::Off);
        windows_->find_device(*fabric_);
      }
      std::string mine;
      try {
        refusal.throw_if_bad();
        if (backend != kHostBackend) {
          window = std::make_shared<Window>(calls_, nullptr, ranks());
          mine = kOn + std::string(on_[backend]->name());
        } else {
          window = std::make_shared<Window>(
              calls_,
              rma::OwnPart::make({endpoint_->name(), rank(), calls_}, memory, bytes, processes_of_host(*endpoint_)),
              ranks());
          mine = transports::pack(expose_part(*windows_, *window->own, calls_, rank()));
        }
      } catch (const Error& error) {  // the others are not to wait for this rank
        mine = refusal_text(error.code(), error.what());
      } catch (const std::exception& error) {
        mine = refusal_text(Code::OutOfMemory, error.what());
      }
      return exchange(std::move(mine), deadline);
    });
    const std::string kind = kind_of_parts(all);  // throws on all ranks if one cannot take part
    if (kind.empty()) {
      on_all_ranks([&] { return map_host_window(*window, all, deadline), std::string(); }, deadline);
    } else {
      for (size_t i = 1; i < on_.size(); ++i) {
        if (kind == on_[i]->name()) window->backend = static_cast<uint8_t>(i);
      }
      map_device_window(*window, memory, bytes, deadline);
    }
    leave_control_call();
    windows_->live[window->number] = window;
    return window;
  } catch (...) {
    if (window != nullptr) close_window(*window);
    if (!has_failed()) leave_control_call();
    throw;
  }
}

void Communicator::map_host_window(Window& window, const std::vector<std::string>& all, Deadline deadline) {
  std::vector<rma::Part> parts(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) (void)transports::unpack(all[rank], parts[rank]);  // it did before
  window.parts.emplace(calls_, windows_->connections, std::move(parts), deadline);
  for (Rank peer = 0; peer < ranks(); ++peer) {
    window.places.emplace_back(window.parts->address(peer), window.parts->bytes(peer));
  }
  if (log_enabled(LogLevel::Info))
    log_info("rank {}: window of call {}: {}", rank(), window.number, window.parts->ways());
}

/// Runs a step on all ranks. Returns what it gave on each; if it threw on one, all throw that.
std::vector<std::string> Communicator::on_all_ranks(const std::function<std::string()>& step, Deadline deadline) {
  std::string mine;
  try {
    mine = kGood + step();
  } catch (const Error& error) {
    mine = refusal_text(error.code(), error.what());
  } catch (const std::exception& error) {
    mine = refusal_text(Code::OutOfMemory, error.what());
  }
  std::vector<std::string> all = in_control_call([&] { return exchange(std::move(mine), deadline); });
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].starts_with(kGood)) throw_refusal(static_cast<Rank>(rank), all[rank]);
    all[rank].erase(0, 1);
  }
  return all;
}

/// No rank enqueues a call before all have mapped the parts: mapping may wait for what streams of the process wait for.
void Communicator::map_device_window(Window& window, void* memory, uint64_t bytes, Deadline deadline) {
  if (window.own != nullptr) {  // an empty part goes with the others
    windows_->target->withdraw(window.number);
    window.own = nullptr;
  }
  const std::vector<std::string> parts = on_all_ranks(
      [&] {
        if (window.backend == kHostBackend) throw Error(Code::Unsupported, "this process has no such memory");
        BackendCalls& on = *on_[window.backend];
        on.check_served(rank(), title());
        window.device = on.backend().make_window(window.number, memory, bytes);
        return window.device->part();
      },
      deadline);
  on_all_ranks([&] { return window.device->map(parts, deadline), std::string(); }, deadline);
  for (Rank peer = 0; peer < ranks(); ++peer) {
    window.places.emplace_back(window.device->address(peer), window.device->bytes(peer));
  }
}

/// When it returns, no other rank writes to this rank's part any more, or the result says which one may.
std::string Communicator::close_window(Window& window) {
  if (window.device != nullptr) {
    if (!window.device->close(exec::WindowEnd::Deregistered)) {
      log_error(
          "rank {}: a call of another rank that is still enqueued may write to the memory of the window of call {}",
          rank(), window.number);
    }
    window.device.reset();
  }
  if (window.own == nullptr) return "";
  if (windows_ != nullptr) windows_->target->withdraw(window.number);
  std::string open = close_part(*window.own, rma::Closed::Deregistered, rank());
  window.parts.reset();
  return open;
}

/// No rank frees its part before all have let go of it. Another rank's streams may take until `ended` to end its calls.
void Communicator::deregister_device_window(Window& window, Deadline ended) {
  window.device->finish(ended);
  const Deadline deadline = Deadline::in(timeouts_.of_calls() + timeouts_.of_init());
  exchange({}, deadline);
  window.device->unmap();
  exchange({}, deadline);
}

/// The same, also if it throws.
void Communicator::deregister_window(Window& window) {
  if (!window.parts && window.device == nullptr) {
    throw_error(Code::InvalidUsage, "rank {}: the window was deregistered", rank());
  }
  if (windows_ != nullptr) windows_->live.erase(window.number);
  try {
    const Deadline deadline = begin_control_call({.deregisters = true, .count = window.number});
    in_control_call([&] {
      if (window.device != nullptr) return deregister_device_window(window, Deadline::in(timeouts_.of_calls()));
      for (Rank peer = 0; peer < ranks(); ++peer) window.parts->flush(peer, timeouts_.of_init());
      exchange({}, deadline);  // all have flushed
    });
    if (window.own != nullptr) window.own->expect_no_use();
    leave_control_call();
  } catch (const Error& error) {
    if (const std::string open = close_window(window); !open.empty()) {
      throw_error(error.code(), "{}; {}", error.what(), open);
    }
    throw;
  } catch (...) {
    close_window(window);
    throw;
  }
  close_window(window);  // nobody uses it: all ranks have said so
}

/// The program may free their memory when the communicator has been destroyed. Of memory that peers map, each has a
/// mapping of its own, which outlives that.
void Communicator::leave_windows() {
  constexpr double kDrainLimit = 2;  // seconds
  size_t kept = 0;
  if (!has_failed()) windows_->connections.drain_rdma(kDrainLimit);
  windows_->target->close();
  for (const auto& [number, window] : windows_->live) {
    const bool is_mapped = window->own != nullptr && window->own->part().region != 0;
    const bool is_empty = window->places[static_cast<size_t>(rank())].second == 0;
    kept += is_mapped || is_empty ? 0 : 1;  // another rank could write to it
    if (window->own != nullptr) close_part(*window->own, rma::Closed::Left, rank());
    if (window->device == nullptr || window->device->close(exec::WindowEnd::Left)) continue;
    log_error("rank {}: a call of another rank that is still enqueued may write to the memory of the window of call {}",
              rank(), number);
  }
  if (kept == 0) return;
  log_error("rank {}: the communicator is destroyed before {} of its windows were deregistered", rank(), kept);
}

/// Their backend ends.
void Communicator::drop_device_windows() {
  if (windows_ == nullptr) return;
  for (const auto& [number, window] : windows_->live) window->device.reset();
  windows_->live.clear();
}

}  // namespace tutti::comm
