// What ranks with GPUs tell each other when a communicator is made, and what follows: which methods they can use.
#include <algorithm>
#include <atomic>
#include <map>

#include "base/env.hpp"
#include "base/fields.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "exec/cuda/cuda_backend.hpp"
#include "topo/constants.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr const char* kSeveralHosts = "the ranks are of several hosts";
// A stream has room for some 1,000 items: a rank that enqueues more waits, and all others wait for it.
constexpr uint64_t kMaxItems = 512;
constexpr uint64_t kLanesOfAll = 3;        // of a plan in which all ranks are peers, and transfers
constexpr uint64_t kMaxWindow = 64 << 20;  // bytes of a block in a round, also where no message says so
constexpr uint64_t kLeastStaging = 4096;   // bytes in a round, of a block

/// Runs a step on all ranks, and returns why one of them cannot: "rank 1: …", the same on all.
template <class Step>
std::string on_all_ranks(const Exchange& exchange, const Step& step) {
  std::string why;
  try {
    step();
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::vector<std::string> all = exchange(why);
  for (size_t peer = 0; peer < all.size(); ++peer) {
    if (!all[peer].empty()) return fmt::format("rank {}: {}", peer, printable(all[peer]));
  }
  return "";
}

}  // namespace

std::string CudaBackend::report() const {
  return pack_fields(Report{.processor = {.id = device_.id(),
                                          .model = device_.model(),
                                          .driver = driver_version(),
                                          .address = device_.address()},
                            .blocks = starts_.resident(),
                            .ll128_to = transport_.ll128_capable_peers(),
                            .why_no_nvls = env().nvls ? tutti::cuda::why_no_multicast(device_) : "TUTTI_NVLS is off",
                            .staging = transport_.staging_bytes()});
}

/// All that share a GPU must run on it at the same time, as they wait for each other.
std::vector<Processor> CudaBackend::meet(const std::vector<std::string>& reports) {
  std::vector<Processor> processors;
  std::map<std::string, uint32_t> sharers;
  for (const std::string& text : reports) {
    try {
      reports_.push_back(unpack_fields<Report>(text));
    } catch (const Error& error) {
      throw_error(Code::ProtocolError, "what rank {} reports of its GPU is invalid ({})", reports_.size(),
                  error.what());
    }
    processors.push_back(reports_.back().processor);
    ++sharers[processors.back().id];
  }
  for (size_t peer = 0; peer < reports_.size(); ++peer) {
    const uint32_t ranks = sharers[processors[peer].id];
    if (reports_[peer].blocks >= ranks) continue;
    throw_error(Code::Unsupported,
                "{} ranks share the GPU of rank {}, which runs {} of their blocks at the same time: lower "
                "TUTTI_BLOCK_THREADS, or use more GPUs",
                ranks, peer, reports_[peer].blocks);
  }
  some_share_ = sharers.size() < reports_.size();
  starts_.share(sharers[device_.id()], static_cast<uint32_t>(env().max_blocks));
  return processors;
}

/// Do 16 bytes times 8 stay whole, where `of` reads what `one` stores?
bool CudaBackend::is_ll128_capable(size_t one, size_t of) const {
  const std::vector<std::string>& to = reports_[one].ll128_to;
  return std::find(to.begin(), to.end(), reports_[of].processor.id) != to.end();
}

/// Mapping memory may wait for all kernels of the process, so all of it is mapped before any rank's kernels run.
void CudaBackend::map_peers(const WantedMethods& wanted, const Exchange& exchange) {
  const auto is_wanted = [&](const std::string& name) {
    return wanted.forced.contains(name) || wanted.measured.contains(name);
  };
  const std::string why = on_all_ranks(exchange, [&] {
    const Deadline deadline = Deadline::in(context_.init_timeout);
    transport_.meet(deadline);
    if (copies_ != nullptr && is_wanted(methods::copy_engine.name)) copies_->meet(deadline);
    regions_.meet(context_.wireup->rank(), context_.wireup->ranks(), *programs_.pool());
  });
  if (!why.empty()) throw_error(Code::Unsupported, "{}", why);
}

Offer CudaBackend::agree(const WantedMethods& wanted, const Exchange& exchange) {
  if (reports_.size() > 1) map_peers(wanted, exchange);
  const auto me = static_cast<size_t>(context_.wireup->rank());
  bool all_ll128 = true;
  std::vector<bool> whole;
  for (size_t one = 0; one < reports_.size(); ++one) {
    for (size_t of = 0; of < reports_.size(); ++of) all_ll128 = all_ll128 && is_ll128_capable(one, of);
    whole.push_back(is_ll128_capable(me, one) && is_ll128_capable(one, me));
  }
  transport_.set_ll128_peers(std::move(whole));
  const std::string why_no_nvls = agree_on_nvls(wanted, exchange);
  return {.processor = "GPU",
          .methods = usable_methods(wanted, all_ll128, why_no_nvls),
          .near = {machine_constants().cuda_alpha, machine_constants().cuda_beta, machine_constants().cuda_message},
          .relay = machine_constants().cuda_proxy,
          .relay_beta = machine_constants().cuda_beta,
          .gamma = machine_constants().cuda_fold_gamma,
          .staging = uint64_t{1} << 40,  // messages are pushed to slots of the link
          .message = transport_.longest_message(),
          .max_width = static_cast<uint32_t>(env().max_blocks),
          .links_in_host_memory = env().cuda_memory == CudaMemory::Host};
}

/// Bytes that each replica of a call may stage in a round: of the rank with least, in as many slots as plans need.
uint64_t CudaBackend::staging() const {
  uint64_t least = ~uint64_t{0};
  for (const Report& report : reports_) least = std::min(least, report.staging);
  return least / link::kFewestSlots / static_cast<uint64_t>(env().max_blocks);
}

/// Why no switch between the ranks' GPUs can fold; "": as far as they know, one can.
std::string CudaBackend::why_no_nvls() const {
  if (reports_.size() == 1) return "there is nobody to fold with";
  for (size_t peer = 0; peer < reports_.size(); ++peer) {
    const std::string& why = reports_[peer].why_no_nvls;
    if (!why.empty()) return fmt::format("rank {}: {}", peer, why);
  }
  if (proxy_) return kSeveralHosts;
  return some_share_ ? "several ranks share a GPU" : "";
}

/// The switch between the ranks' GPUs. Returns why there is none. Hardware that says it can and then does not is worth
/// a warning, once a process; who asked for it gets an error, or is told that times of the profile are of no use.
std::string CudaBackend::agree_on_nvls(const WantedMethods& wanted, const Exchange& exchange) {
  std::string why = why_no_nvls();
  const bool should = why.empty();
  if (should) why = make_nvls(exchange);
  if (why.empty() || reports_.size() == 1 || context_.wireup->rank() != 0) return why;
  if (wanted.forced.contains(methods::nvls.name)) return why;
  if (wanted.measured.contains(methods::nvls.name)) {
    log_warn("the profile has times of nvls, which cannot be used: {}", why);
  } else if (static std::atomic<bool> told = false; should && !told.exchange(true)) {
    log_warn(
        "the NVLink switch is not used to fold and multicast, though the GPUs say that it could: {}; TUTTI_NVLS=0 "
        "leaves it alone",
        why);
  }
  return why;
}

/// On all ranks. Returns the reason if one cannot; then there is none.
std::string CudaBackend::make_nvls(const Exchange& exchange) {
  std::string why = on_all_ranks(exchange, [&] {
    multimem_ = std::make_unique<Multimem>(context_, device_, programs_.pool());
    multimem_->join(Deadline::in(context_.init_timeout));
  });
  if (why.empty()) why = on_all_ranks(exchange, [&] { multimem_->bind(gpu_); });
  if (why.empty()) why = on_all_ranks(exchange, [&] { multimem_->try_out(); });
  if (!why.empty()) multimem_.reset();
  return why;
}

/// Can peers read a buffer in place, in some call?
bool CudaBackend::reads_in_place() const {
  return reports_.size() > 1 && !proxy_ && !regions_.reads_all() && staging() >= kLeastStaging;
}

std::vector<UsableMethod> CudaBackend::usable_methods(const WantedMethods& wanted, bool all_ll128,
                                                      const std::string& why_no_nvls) {
  const auto ranks = static_cast<uint64_t>(reports_.size());
  link::Access can;
  if (ranks > 1) can = transport_.capabilities(context_.wireup->rank() == 0 ? 1 : 0, {}).out;
  const std::string far = proxy_ ? kSeveralHosts : "";
  const std::string torn = all_ll128 ? "" : "NVLink does not join all GPUs, so lines of 128 bytes may be torn";
  // Where it is demanded, messages between other GPUs travel in slots.
  const bool demanded = wanted.forced.contains(methods::ll128.name);
  const std::string no_staging = staging() >= kLeastStaging ? "" : "there is no staging memory that all peers can read";
  return {{.method = &methods::slots, .window = kMaxWindow, .width = sizes_.slots_width},
          {.method = &methods::get,
           .why_not = far.empty() ? no_staging : far,
           .message = machine_constants().cuda_get_message,
           .staging = staging(),
           .window = kMaxWindow,
           .width = static_cast<uint32_t>(std::max<uint64_t>(1, Programs::kMaxLinks / kLanesOfAll / ranks))},
          {.method = &methods::ll, .why_not = far, .message = can.ll_bytes, .rounds = 1},
          {.method = &methods::ll128,
           .why_not = far.empty() && !demanded ? torn : far,
           .message = can.ll128_bytes,
           .rounds = 1},
          {.method = &methods::copy_engine,
           .why_not = far,
           .staging = copies_ != nullptr ? Copies::slot_bytes() : 0,
           .rounds = std::max<uint64_t>(1, kMaxItems / (4 * (ranks + 1)))},
          {.method = &methods::nvls,
           .why_not = why_no_nvls,
           .buffer = Multimem::slot_bytes(),
           .least_window = machine_constants().cuda_multimem_window}};
}

}  // namespace tutti::exec::cuda
