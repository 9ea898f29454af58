#include "transports/verbs/ibv_nic.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"
#include "transports/verbs/ibv_port.hpp"

namespace tutti::transports::verbs {
namespace {

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using Domain = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;

constexpr uint32_t kNumberMask = (1u << 24) - 1;

class IbvRegion final : public Region {
 public:
  explicit IbvRegion(MemoryRegion region) : region_(std::move(region)) {
    address = reinterpret_cast<uint64_t>(region_->addr);
    bytes = region_->length;
    local_key = region_->lkey;
    remote_key = region_->rkey;
  }

 private:
  MemoryRegion region_;
};

/// Calls `make(access)`, with relaxed ordering if the device has it: the bus may reorder the bytes of writes, but not a
/// completion with them. libibverbs leaves the flag out where it knows that the device lacks it; others refuse it.
template <class Make>
MemoryRegion register_with(RegionUse use, const Make& make) {
  int access = 0;
  if (use != RegionUse::Send) access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (use == RegionUse::Data) access |= IBV_ACCESS_RELAXED_ORDERING;
  MemoryRegion region(make(access));
  if (region == nullptr && use == RegionUse::Data) region.reset(make(access & ~IBV_ACCESS_RELAXED_ORDERING));
  return region;
}

MemoryRegion register_host(ibv_pd* domain, void* data, uint64_t bytes, RegionUse use) {
  MemoryRegion region = register_with(use, [&](int access) { return ibv_reg_mr(domain, data, bytes, access); });
  if (region == nullptr) throw_error(Code::OutOfMemory, "verbs: {}", locked_memory_words(bytes, errno));
  return region;
}

/// Does the device register dmabufs? One that does says of an invalid descriptor that it is invalid.
bool has_dmabuf(ibv_pd* domain) {
  constexpr uint64_t kPage = 4096;
  errno = 0;
  const MemoryRegion none(ibv_reg_dmabuf_mr(domain, 0, kPage, 0, -1, 0));
  return none == nullptr && errno == EBADF;
}

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

class IbvQueue;
/// By the upper half of their receive ids.
using Queues = std::map<uint64_t, IbvQueue*>;

class IbvQueue final : public Queue {
 public:
  IbvQueue(const Port& port, ibv_pd* domain, Queues& all, QueuePair pair, const QueueNeeds& needs)
      : port_(port),
        all_(all),
        pair_(std::move(pair)),
        receive_id_(needs.receive_id),
        receives_(needs.receives),
        notices_(new uint32_t[needs.receives]()),
        notices_region_(register_host(domain, notices_.get(), needs.receives * sizeof(uint32_t), RegionUse::Words)),
        first_(std::random_device{}() & kNumberMask) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.pkey_index = port_.pkey_index;
    to.port_num = port_.number;
    to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    modify(to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "set up");
    all_[receive_id_ >> 32] = this;
  }
  ~IbvQueue() override { all_.erase(receive_id_ >> 32); }

  QueueAddress address() const override { return {pair_->qp_num, first_}; }

  void connect(const NicAddress& nic, const QueueAddress& peer) override {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = port_.attributes.active_mtu;
    while (to.path_mtu > IBV_MTU_256 && (128 << to.path_mtu) > nic.mtu) {
      to.path_mtu = static_cast<ibv_mtu>(to.path_mtu - 1);
    }
    to.dest_qp_num = peer.number;
    to.rq_psn = peer.first;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = kNotReadyTimer;
    to.ah_attr.dlid = nic.lid;
    to.ah_attr.port_num = port_.number;
    if (port_.ethernet || (port_.attributes.flags & IBV_QPF_GRH_REQUIRED) != 0) {
      constexpr uint8_t kHops = 64;
      to.ah_attr.is_global = 1;
      to.ah_attr.grh.sgid_index = port_.gid_index;
      to.ah_attr.grh.hop_limit = kHops;
      std::memcpy(to.ah_attr.grh.dgid.raw, nic.gid, kGidBytes);
    }
    modify(to,
           IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER | IBV_QP_AV,
           "connect");
    to = {};
    to.qp_state = IBV_QPS_RTS;
    to.sq_psn = first_;
    to.timeout = kTimeout;
    to.retry_cnt = kRetries;
    to.rnr_retry = kNotReadyRetries;
    to.max_rd_atomic = 1;
    modify(
        to,
        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
        "connect");
  }

  int post(const Work& work) override {
    ibv_sge pieces[2];
    for (uint32_t i = 0; i < work.count; ++i) {
      pieces[i] = {reinterpret_cast<uint64_t>(work.pieces[i].at), work.pieces[i].bytes, work.pieces[i].key};
    }
    ibv_send_wr request{};
    request.wr_id = work.id;
    request.sg_list = pieces;
    request.num_sge = static_cast<int>(work.count);
    if (work.completes) request.send_flags |= IBV_SEND_SIGNALED;
    if (work.inlined) request.send_flags |= IBV_SEND_INLINE;
    request.wr.rdma.remote_addr = work.remote;
    request.wr.rdma.rkey = work.remote_key;
    request.imm_data = htobe32(work.notice);
    request.opcode = work.kind == Work::Kind::Write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
    if (work.kind == Work::Kind::SendNotice) {
      request.opcode = IBV_WR_SEND;
      request.send_flags |= IBV_SEND_INLINE;
      pieces[0] = {reinterpret_cast<uint64_t>(&work.notice), sizeof work.notice, 0};
      request.num_sge = 1;
    }
    ibv_send_wr* wrong = nullptr;
    return ibv_post_send(pair_.get(), &request, &wrong);
  }

  int post_receives(uint32_t count) override {
    for (; count > 0; --count) {
      const uint64_t index = posted_++ % receives_;
      uint32_t& word = notices_[index];
      ibv_sge piece{reinterpret_cast<uint64_t>(&word), sizeof word, notices_region_->lkey};
      ibv_recv_wr request{};
      request.wr_id = receive_id_ | index;
      request.sg_list = &piece;
      request.num_sge = 1;
      ibv_recv_wr* wrong = nullptr;
      if (const int error = ibv_post_recv(pair_.get(), &request, &wrong); error != 0) return error;
    }
    return 0;
  }

  void stop() override { pair_.reset(); }

  /// The notice that a SEND has brought to the receive of this id.
  uint32_t sent_notice(uint64_t id) const { return notices_[static_cast<uint32_t>(id) % receives_]; }

 private:
  // An unanswered packet is sent again after 4.096 µs · 2^18 = 1.07 s, seven times: a network that fails for 8 s loses
  // nothing.
  static constexpr uint8_t kTimeout = 18, kRetries = 7;
  // A peer has posted receives for all notices that the protocol permits. One without is waited for 6 · 164 ms.
  static constexpr uint8_t kNotReadyTimer = 28, kNotReadyRetries = 6;

  void modify(ibv_qp_attr& to, int what, const char* purpose) {
    const int error = ibv_modify_qp(pair_.get(), &to, what);
    if (error == 0) return;
    throw_error(Code::SystemError, "verbs: cannot {} a queue pair of {}: {}", purpose, port_.name,
                std::strerror(error));
  }

  const Port& port_;
  Queues& all_;
  QueuePair pair_;
  const uint64_t receive_id_;
  const uint32_t receives_;
  std::unique_ptr<uint32_t[]> notices_;
  MemoryRegion notices_region_;
  const uint32_t first_;
  uint64_t posted_ = 0;
};

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
    find_max_inline();
    watch(device()->async_fd);
    watch(channel_->fd);
  }

  const NicInfo& info() const override { return info_; }

  std::unique_ptr<Region> register_memory(void* data, uint64_t bytes, RegionUse use) override {
    return std::make_unique<IbvRegion>(register_host(domain_.get(), data, bytes, use));
  }

  std::unique_ptr<Region> register_dmabuf(const DmaBuf& memory, RegionUse use) override {
    MemoryRegion region = register_with(use, [&](int access) {
      return ibv_reg_dmabuf_mr(domain_.get(), memory.offset, memory.bytes, memory.address, memory.fd, access);
    });
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
    return std::make_unique<IbvQueue>(port_, domain_.get(), queues_, std::move(pair), needs);
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
    wanted.cap = {.max_send_wr = works,
                  .max_recv_wr = receives,
                  .max_send_sge = 2,
                  .max_recv_sge = 1,
                  .max_inline_data = inlined};
    return QueuePair(ibv_create_qp(domain_.get(), &wanted));
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
