#include "transports/verbs/ibv_nic.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"
#include "transports/verbs/ibv_memory.hpp"
#include "transports/verbs/ibv_port.hpp"
#include "transports/verbs/ibv_queue.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint32_t kMaxReads = 16;  // under way on a queue: more would help reads over long distances only

Completion::Result result_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Completion::Result::Ok;
    case IBV_WC_RETRY_EXC_ERR:
      return Completion::Result::Unreachable;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return Completion::Result::NotReady;
    case IBV_WC_REM_ACCESS_ERR:
      return Completion::Result::Refused;
    case IBV_WC_WR_FLUSH_ERR:
      return Completion::Result::Flushed;
    default:
      return Completion::Result::Other;
  }
}

class IbvNic final : public Nic {
 public:
  explicit IbvNic(const topo::HostPlace& place)
      : port_(find_port(place)), domain_(ibv_alloc_pd(device())), channel_(ibv_create_comp_channel(device())) {
    if (domain_ == nullptr || channel_ == nullptr) fail("cannot open a protection domain and an event channel");
    if (ibv_query_device(device(), &limits_) != 0) fail("cannot be queried");
    room_ = std::min(1024, limits_.max_cqe);
    completions_.reset(ibv_create_cq(device(), room_, nullptr, channel_.get(), 0));
    if (completions_ == nullptr) fail("cannot make a completion queue");
    info_ = {.name = port_.name, .address = port_.address, .immediate = env().verbs_immediate};
    info_.adaptive = env().verbs_adaptive.value_or(!port_.ethernet);
    info_.dmabuf = has_dmabuf(domain_.get());
    info_.max_work = static_cast<uint32_t>(limits_.max_qp_wr) / 4;
    find_remote_limits();
    find_max_inline();
    watch(device()->async_fd);
    watch(channel_->fd);
  }

  const NicInfo& info() const override { return info_; }

  std::unique_ptr<Region> register_memory(void* data, uint64_t bytes, RegionUse use) override {
    return std::make_unique<IbvRegion>(
        register_host(domain_.get(), data, bytes, use, info_.atomics != RemoteAtomics::None));
  }

  std::unique_ptr<Region> register_dmabuf(const DmaBuf& memory, RegionUse use) override {
    MemoryRegion region = register_device(domain_.get(), memory, use);
    if (region == nullptr) {
      throw_error(Code::OutOfMemory, "verbs: {} cannot register {} bytes of a GPU: {}", port_.name, memory.bytes,
                  std::strerror(errno));
    }
    auto made = std::make_unique<IbvRegion>(std::move(region));
    made->address = memory.address;
    return made;
  }

  std::unique_ptr<Queue> make_queue(const QueueNeeds& needs) override {
    needed_ += static_cast<int>(needs.works + needs.receives);
    if (needed_ > room_) {
      room_ = std::max(needed_, std::min(2 * room_, limits_.max_cqe));
      if (const int error = ibv_resize_cq(completions_.get(), room_); error != 0) {
        throw_error(Code::OutOfMemory,
                    "verbs: {} cannot have a completion queue of {} entries: {}; use fewer ranks or "
                    "TUTTI_VERBS_QPS",
                    port_.name, room_, std::strerror(error));
      }
    }
    QueuePair pair = make_pair(needs.works, needs.receives, info_.max_inline);
    if (pair == nullptr) fail("cannot make a queue pair");
    return std::make_unique<IbvQueue>(port_, domain_.get(), queues_, std::move(pair), needs,
                                      info_.atomics != RemoteAtomics::None);
  }

  int poll(Completion* into, int most) override {
    constexpr int kAtOnce = 32;
    ibv_wc got[kAtOnce];
    const int count = ibv_poll_cq(completions_.get(), std::min(most, kAtOnce), got);
    for (int i = 0; i < count; ++i) {
      const ibv_wc& from = got[i];
      into[i] = {.id = from.wr_id, .result = result_of(from.status), .text = ibv_wc_status_str(from.status)};
      if (from.status != IBV_WC_SUCCESS) continue;
      into[i].received = (from.opcode & IBV_WC_RECV) != 0;
      if (!into[i].received) continue;
      const auto queue = queues_.find(from.wr_id >> 32);
      if ((from.wc_flags & IBV_WC_WITH_IMM) != 0) {
        into[i].notice = be32toh(from.imm_data);
      } else if (queue != queues_.end()) {
        into[i].notice = queue->second->sent_notice(from.wr_id);
      }
    }
    return count;
  }

  Event next_event() override {
    ibv_async_event event{};
    if (ibv_get_async_event(device(), &event) != 0) return {};
    Event found{.text = ibv_event_type_str(event.event_type), .fatal = event.event_type == IBV_EVENT_DEVICE_FATAL};
    switch (event.event_type) {
      case IBV_EVENT_PORT_ERR:
        found.text = "the port is down";
        break;
      case IBV_EVENT_PORT_ACTIVE:
        found.text = "the port is active again";
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_PATH_MIG_ERR:
        found.queue = event.element.qp->qp_num;
        break;
      default:
        break;
    }
    ibv_ack_async_event(&event);
    return found;
  }

  int descriptor() const override { return events_.get(); }
  void arm() override {
    ibv_cq* which = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel_.get(), &which, &context) == 0) ibv_ack_cq_events(which, 1);
    ibv_req_notify_cq(completions_.get(), 0);
  }

 private:
  ibv_context* device() const { return port_.device.get(); }

  [[noreturn]] void fail(const char* what) const {
    throw_error(Code::SystemError, "verbs: {} {}: {}", port_.name, what, std::strerror(errno));
  }

  QueuePair make_pair(uint32_t works, uint32_t receives, uint32_t inlined) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = std::max(works, 1u),
                  .max_recv_wr = std::max(receives, 1u),
                  .max_send_sge = 2,
                  .max_recv_sge = 1,
                  .max_inline_data = inlined};
    return QueuePair(ibv_create_qp(domain_.get(), &wanted));
  }

  void find_remote_limits() {
    if (limits_.atomic_cap == IBV_ATOMIC_HCA) info_.atomics = RemoteAtomics::BetweenDevices;
    if (limits_.atomic_cap == IBV_ATOMIC_GLOB) info_.atomics = RemoteAtomics::Global;
    const int reads = std::min(limits_.max_qp_rd_atom, limits_.max_qp_init_rd_atom);
    info_.max_reads = std::clamp<uint32_t>(static_cast<uint32_t>(std::max(reads, 1)), 1, kMaxReads);
    if (port_.attributes.max_msg_sz > 0) info_.max_message = std::min(info_.max_message, port_.attributes.max_msg_sz);
  }

  /// Devices do not say how many bytes a work request can carry: it is tried.
  void find_max_inline() {
    for (const uint32_t bytes : {220u, 64u}) {
      if (make_pair(1, 1, bytes) == nullptr) continue;
      info_.max_inline = bytes;
      return;
    }
    throw_error(Code::Unsupported, "verbs: {} carries no data in work requests (max_inline_data)", port_.name);
  }

  void watch(int fd) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("cannot be watched");
  }

  Port port_;
  Domain domain_;
  Channel channel_;
  CompletionQueue completions_;
  ibv_device_attr limits_{};
  int room_ = 0, needed_ = 0;
  Queues queues_;
  NicInfo info_;
  const Fd events_{::epoll_create1(EPOLL_CLOEXEC)};
};

}  // namespace

std::unique_ptr<Nic> make_ibv_nic(const topo::HostPlace& place) { return std::make_unique<IbvNic>(place); }

}  // namespace tutti::transports::verbs
