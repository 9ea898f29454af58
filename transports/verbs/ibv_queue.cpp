#include "transports/verbs/ibv_queue.hpp"

#include <cstring>
#include <random>
#include <utility>

#include "base/format.hpp"

namespace tutti::transports::verbs {
namespace {

constexpr uint32_t kNumberMask = (1u << 24) - 1;
// An unanswered packet is sent again after 4.096 µs · 2^18 = 1.07 s, seven times: a network that fails for 8 s loses
// nothing.
constexpr uint8_t kTimeout = 18, kRetries = 7;
// A peer has posted receives for all notices that the protocol permits. One without is waited for 6 · 164 ms.
constexpr uint8_t kNotReadyTimer = 28, kNotReadyRetries = 6;

int access_of(PeerAccess access, bool atomics) {
  switch (access) {
    case PeerAccess::None:
      return 0;
    case PeerAccess::Write:
      return IBV_ACCESS_REMOTE_WRITE;
    case PeerAccess::All:
      return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | (atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
  }
  return 0;
}

ibv_wr_opcode opcode_of(Work::Kind kind) {
  switch (kind) {
    case Work::Kind::Write:
      return IBV_WR_RDMA_WRITE;
    case Work::Kind::WriteNotice:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Work::Kind::SendNotice:
      return IBV_WR_SEND;
    case Work::Kind::Read:
      return IBV_WR_RDMA_READ;
    case Work::Kind::Add:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Work::Kind::CompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
  }
  return IBV_WR_RDMA_WRITE;
}

/// Where it acts: atomic steps have fields of their own, in the same union.
void set_remote(const Work& work, ibv_send_wr& request) {
  if (work.kind != Work::Kind::Add && work.kind != Work::Kind::CompareSwap) {
    request.wr.rdma.remote_addr = work.remote;
    request.wr.rdma.rkey = work.remote_key;
    return;
  }
  const bool adds = work.kind == Work::Kind::Add;
  request.wr.atomic.remote_addr = work.remote;
  request.wr.atomic.rkey = work.remote_key;
  request.wr.atomic.compare_add = adds ? work.operand : work.expected;
  request.wr.atomic.swap = adds ? 0 : work.operand;
}

}  // namespace

IbvQueue::IbvQueue(const Port& port, ibv_pd* domain, Queues& all, QueuePair pair, const QueueNeeds& needs, bool atomics)
    : port_(port),
      all_(all),
      pair_(std::move(pair)),
      receive_id_(needs.receive_id),
      receives_(needs.receives),
      first_(std::random_device{}() & kNumberMask) {
  if (receives_ > 0) {
    notices_.reset(new uint32_t[receives_]());
    notices_region_ = register_host(domain, notices_.get(), receives_ * sizeof(uint32_t), RegionUse::Words, false);
  }
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.pkey_index = port_.pkey_index;
  to.port_num = port_.number;
  to.qp_access_flags = static_cast<unsigned>(access_of(needs.access, atomics));
  modify(to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "set up");
  all_[receive_id_ >> 32] = this;
}

IbvQueue::~IbvQueue() { all_.erase(receive_id_ >> 32); }

void IbvQueue::connect(const NicAddress& nic, const QueueAddress& peer, uint32_t reads) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = port_.attributes.active_mtu;
  while (to.path_mtu > IBV_MTU_256 && (128 << to.path_mtu) > nic.mtu) {
    to.path_mtu = static_cast<ibv_mtu>(to.path_mtu - 1);
  }
  to.dest_qp_num = peer.number;
  to.rq_psn = peer.first;
  to.max_dest_rd_atomic = static_cast<uint8_t>(reads);
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
  to.max_rd_atomic = static_cast<uint8_t>(reads);
  modify(to,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
         "connect");
}

int IbvQueue::post(const Work& work) {
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
  set_remote(work, request);
  request.imm_data = htobe32(work.notice);
  request.opcode = opcode_of(work.kind);
  if (work.kind == Work::Kind::SendNotice) {
    request.send_flags |= IBV_SEND_INLINE;
    pieces[0] = {reinterpret_cast<uint64_t>(&work.notice), sizeof work.notice, 0};
    request.num_sge = 1;
  }
  ibv_send_wr* wrong = nullptr;
  return ibv_post_send(pair_.get(), &request, &wrong);
}

int IbvQueue::post_receives(uint32_t count) {
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

void IbvQueue::modify(ibv_qp_attr& to, int what, const char* purpose) {
  const int error = ibv_modify_qp(pair_.get(), &to, what);
  if (error == 0) return;
  throw_error(Code::SystemError, "verbs: cannot {} a queue pair of {}: {}", purpose, port_.name, std::strerror(error));
}

}  // namespace tutti::transports::verbs
