// A process group: how it is made, ends and fails, its sends and receives, and its counters.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "compat/torch/checks.hpp"
#include "compat/torch/convert.hpp"
#include "compat/torch/group.hpp"
#include "compat/torch/memory.hpp"
#include "compat/torch/python.hpp"
#include "compat/torch/rendezvous.hpp"
#include "compat/torch/window.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {

using c10d::OpType;
using std::chrono::milliseconds;

namespace {

/// Groups that nobody has destroyed, in the order in which they were made.
struct Living {
  std::mutex mutex;
  std::vector<Group*> groups;
};
Living& living() {
  static Living* const kOne = new Living;  // groups may outlive static objects
  return *kOne;
}

/// Options of older versions have no name of the group.
template <class Options>
std::string name_in(const Options& options) {
  if constexpr (requires { options.group_name; }) {
    return options.group_name;
  } else {
    return "";
  }
}

/// A connection of our own: the program may block in its.
c10::intrusive_ptr<c10d::Store> own(const c10::intrusive_ptr<c10d::Store>& store) {
  try {
    return store->clone();
  } catch (const std::exception&) {  // a store of the program's own that cannot
    return store;
  }
}

}  // namespace

void end_all(bool failed) {
  std::vector<Group*> groups;
  {
    const std::lock_guard lock(living().mutex);
    groups = living().groups;
  }
  for (Group* group : groups) {
    try {
      if (failed) group->abort();
      group->shutdown();
    } catch (...) {  // the program has ended: nobody is left to be told
    }
  }
}

c10::intrusive_ptr<c10d::Backend::Options> Group::Options::clone() const { return c10::make_intrusive<Options>(*this); }

Group::Group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name,
             milliseconds timeout)
    : Backend(rank, size), facts_(std::make_shared<GroupFacts>(name, timeout.count())) {
  const WithoutGil without;
  const Joined joined =
      join_group(*store, {.key = "tutti/open", .name = name, .rank = rank, .ranks = size, .timeout = timeout});
  comm_ = joined.comm;
  store_ = c10::make_intrusive<c10d::PrefixStore>(c10::str("tutti/", joined.token), own(store));
  queue_.serve(comm_);
  point_to_point_.emplace(store_, facts_, comm_, rank, size);
  gpu_.emplace(store_, facts_, rank, size);
  const std::lock_guard lock(living().mutex);
  living().groups.push_back(this);
}

Group::~Group() {
  {
    const std::lock_guard lock(living().mutex);
    auto& groups = living().groups;
    groups.erase(std::find(groups.begin(), groups.end(), this));
  }
  try {
    shutdown();
  } catch (...) {  // a group that nobody ended has nobody to tell
  }
}

void Group::shutdown() {
  if (left_.exchange(true)) return;
  std::map<const Window*, std::shared_ptr<Window>> windows;  // their tensors are needed until the group has left
  {
    const std::lock_guard lock(mutex_);
    windows.swap(windows_);
    shared_.clear();
  }
  const WithoutGil without;
  const std::string unreceived = point_to_point_->close();
  queue_.drain();
  tuttiResult_t state = gpu_->state(), host = tuttiSuccess;
  tuttiCommGetAsyncError(comm_, &host);
  if (state == tuttiSuccess) state = host;
  std::exception_ptr of_gpu;
  try {
    gpu_->close();
  } catch (...) {
    of_gpu = std::current_exception();
  }
  try {
    leave(std::exchange(comm_, nullptr));
    if (of_gpu != nullptr) std::rethrow_exception(of_gpu);
    if (!unreceived.empty()) throw tutti::Error(tutti::Code::Mismatch, unreceived);
  } catch (const tutti::Error&) {
    // If the group had failed, it is the error that is known.
    if (state == tuttiSuccess) std::rethrow_exception(as_torch_error(timeout()));
  }
}

void Group::abort() {
  if (left_) return;
  const WithoutGil without;
  point_to_point_->abort();
  gpu_->abort();
  tutti::check(tuttiCommAbort(comm_));
}

c10d::ErrorType Group::getError() {
  tuttiResult_t state = tuttiSuccess;
  if (!left_) {
    tutti::check(tuttiCommGetAsyncError(comm_, &state));
    if (state == tuttiSuccess) state = gpu_->state();
  }
  return state == tuttiSuccess      ? c10d::ErrorType::SUCCESS
         : state == tuttiTimeout    ? c10d::ErrorType::TIMEOUT
         : state == tuttiPeerFailed ? c10d::ErrorType::REMOTE_ERROR
                                    : c10d::ErrorType::COMM_ERROR;
}

c10::intrusive_ptr<c10d::Backend::Options> Group::getBackendOptions() {
  return c10::make_intrusive<Options>(timeout());
}

void Group::setTimeout(milliseconds timeout) {
  demand(timeout.count() > 0, "set_timeout", "a time-out is a positive time");
  try {
    check_usable("set_timeout");
    tutti::check(tuttiCommSetTimeout(comm_, seconds_of(timeout)));
    gpu_->set_timeout(seconds_of(timeout));
  } catch (...) {
    std::rethrow_exception(as_torch_error());
  }
  facts_->timeout_ms = timeout.count();
}

// ---- groups made of this one

c10::intrusive_ptr<c10d::Backend> Group::split(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::vector<int>& ranks,
                                               const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  const std::string name = opts ? name_in(*opts) : "";
  // Groups that are split off together may have the same name, and then the same store.
  const auto apart = c10::make_intrusive<c10d::PrefixStore>(c10::str("ranks ", c10::Join(" ", ranks)), store);
  return c10::make_intrusive<Group>(apart, static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()),
                                    name.empty() ? facts_->name + "/split" : c10::str("group '", name, "'"),
                                    opts ? opts->timeout : timeout());
}

c10::intrusive_ptr<c10d::Backend> Group::split(const std::vector<int>& ranks,
                                               const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  return split(c10::make_intrusive<c10d::PrefixStore>(c10::str("child ", ++children_), store_), ranks, opts);
}

c10::intrusive_ptr<c10d::Backend> Group::shrink(const std::vector<int64_t>& excluded, int flags,
                                                const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  std::vector<int> left;
  for (int rank = 0; rank < getSize(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) left.push_back(rank);
  }
  if (flags != 0) abort();
  const auto mine = std::find(left.begin(), left.end(), getRank());
  demand(mine != left.end(), "shrink_group", "this rank is one of those to be excluded");
  const auto store = c10::make_intrusive<c10d::PrefixStore>(c10::str("child ", ++children_), store_);
  return c10::make_intrusive<Group>(store, static_cast<int>(mine - left.begin()), static_cast<int>(left.size()),
                                    facts_->name + "/shrunk", opts ? opts->timeout : timeout());
}

// ---- operations

void Group::check_usable(const char* call) const {
  if (left_) {
    throw tutti::Error(tutti::Code::InvalidUsage,
                       c10::str("rank ", rank_, ": ", call, ": ", facts_->name, " was shut down"));
  }
}

Description Group::describe(OpType type, const char* title, std::string detail) {
  return {rank_, type, title, ++sequence_, facts_, std::move(detail)};
}

WorkPtr Group::coalesced(WorkPtr work) {
  const std::lock_guard lock(mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

WorkPtr Group::run(OpType type, const char* title, const Tensors& inputs, Tensors outputs, bool async,
                   milliseconds timeout, Body body) {
  try {
    check_usable(title);
    const char* const call = title + sizeof "tutti:" - 1;
    const c10::Device device = device_of(call, inputs, outputs);
    if (!device.is_cuda()) return run_on_host(type, title, inputs, std::move(outputs), async, timeout, body);
    if (auto work = collect(device, call, outputs, body, async, timeout)) return work;
    const auto work = c10::make_intrusive<GpuWork>(describe(type, title), inputs, std::move(outputs));
    return run_on_gpu(device, work, std::move(body), async, timeout);
  } catch (...) {
    std::rethrow_exception(as_torch_error(facts_->timeout()));
  }
}

WorkPtr Group::run_on_host(OpType type, const char* title, const Tensors& inputs, Tensors outputs, bool async,
                           milliseconds timeout, const Body& body) {
  auto work = c10::make_intrusive<Work>(describe(type, title), inputs, std::move(outputs));
  Task task = [this, body] { body({.comm = comm_}); };
  if (timeout.count() > 0) task = within(timeout, std::move(task));
  queue_.run(work, std::move(task), !async);
  last_on_gpu_ = false;
  if (counting_) queue_.launch([this] { count_delivery(); });
  return coalesced(std::move(work));
}

Task Group::within(milliseconds limit, Task task) {
  return [this, limit, task = std::move(task)] {
    tutti::check(tuttiCommSetTimeout(comm_, seconds_of(limit)));
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = as_torch_error(limit);
    }
    tutti::check(tuttiCommSetTimeout(comm_, seconds_of(timeout())));
    if (error != nullptr) std::rethrow_exception(error);
  };
}

Description Group::describe_message(OpType type, const char* title, const Tensors& tensors, int peer, int tag) {
  const at::Tensor& tensor = tensors.front();
  const std::string other = peer == kAnySource ? "any rank" : c10::str("rank ", peer);
  return describe(type, title,
                  c10::str("(", tensor.numel(), " elements of ", tensor.scalar_type(),
                           type == OpType::SEND ? " to " : " from ", other, ", tag ", tag, ")"));
}

void Group::check_message(OpType type, const Tensors& tensors, int peer) {
  const char* const call = type == OpType::SEND ? "send" : "recv";
  const at::Tensor& tensor = only(call, tensors);
  check_tensor(call, tensor);
  demand(peer == kAnySource || (peer >= 0 && peer < size_), call, "the peer's rank is not one of the group's");
  check_usable(call);
}

c10::intrusive_ptr<Work> Group::message(OpType type, const char* title, const Tensors& tensors, int peer, int tag) {
  return c10::make_intrusive<Work>(describe_message(type, title, tensors, peer, tag), tensors, tensors);
}

WorkPtr Group::send(Tensors& tensors, int peer, int tag) {
  check_message(OpType::SEND, tensors, peer);
  if (tensors.front().is_cuda()) return message_of_gpus(OpType::SEND, "tutti:send", tensors, peer, tag);
  auto work = message(OpType::SEND, "tutti:send", tensors, peer, tag);
  point_to_point_->send(work, tensors.front(), peer, tag);
  return coalesced(std::move(work));
}

WorkPtr Group::recv(Tensors& tensors, int peer, int tag) {
  check_message(OpType::RECV, tensors, peer);
  if (tensors.front().is_cuda()) return message_of_gpus(OpType::RECV, "tutti:recv", tensors, peer, tag);
  auto work = message(OpType::RECV, "tutti:recv", tensors, peer, tag);
  point_to_point_->recv(work, tensors.front(), peer, tag);
  return coalesced(std::move(work));
}

WorkPtr Group::recvAnysource(Tensors& tensors, int tag) {
  check_message(OpType::RECVANYSOURCE, tensors, kAnySource);
  if (tensors.front().is_cuda()) {
    return message_of_gpus(OpType::RECVANYSOURCE, "tutti:recvAnySource", tensors, kAnySource, tag);
  }
  auto work = message(OpType::RECVANYSOURCE, "tutti:recvAnySource", tensors, kAnySource, tag);
  point_to_point_->recv(work, tensors.front(), kAnySource, tag);
  return coalesced(std::move(work));
}

// ---- reports

void Group::count_delivery() {
  tuttiCallInfo info{.size = sizeof info};
  if (tuttiCommGetLastCall(comm_, &info) != tuttiSuccess) return;
  const std::lock_guard lock(mutex_);
  ++deliveries_[info.delivery];
}

std::map<std::string, uint64_t> Group::deliveries() {
  const WithoutGil without;
  queue_.drain();
  const std::lock_guard lock(mutex_);
  return deliveries_;
}

tuttiCallInfo Group::last_call() {
  check_usable("last_call");
  queue_.drain();
  const std::shared_ptr<GpuComm> of_gpu = last_on_gpu_ ? gpu_->group_comm() : nullptr;
  tuttiCallInfo info{.size = sizeof info};
  tutti::check(tuttiCommGetLastCall(of_gpu ? of_gpu->get() : comm_, &info));
  return info;
}

// ---- memory

bool Group::supportsTensorAlloc(c10::DeviceIndex) { return true; }

/// On a GPU, memory is as PyTorch's allocator has it.
at::Tensor Group::allocateTensor(long size, at::TensorOptions options) {  // NOLINT: PyTorch's type
  if (options.device().is_cuda()) return at::empty({size}, options);
  return mapped_tensor({size}, options);
}

}  // namespace tutti_torch
