// UCX: one context and one worker of an engine, and an endpoint for each peer.
#pragma once

#include <ucp/api/ucp.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/status.hpp"
#include "transports/ucx/fabric.hpp"

namespace tutti::transports::ucx {

/// "" if this host's UCX has a way to other processes; else what is wrong.
std::string why_not();

class Worker final : public Fabric {
 public:
  /// What comes from anybody. Called inside progress() and send().
  class Sink {
   public:
    virtual ~Sink() = default;
    /// Of a message: `data` is its payload, or announces it. Returns whether `data` is kept, to be fetched or dropped.
    virtual bool take_message(Piece header, void* data, uint64_t bytes, bool announced) = 0;
    virtual void take_credit(Piece header) = 0;
  };

  /// Throws Error.
  explicit Worker(Sink& sink);
  /// Endpoints that are still there are closed at once.
  ~Worker() override;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& address() const { return address_; }
  /// Makes the endpoint to a peer, once. Throws Error.
  void connect(Rank peer, const std::string& address);
  /// UCX's words for why the endpoint to the peer is broken; null if it is not.
  const char* broken(Rank peer) const;
  /// Needs sending to the peer nothing of the peer's any more? Before, UCX agrees with it on transports.
  bool connected(Rank peer) const { return !endpoints_.at(peer).connecting.under_way(); }

  void send(Rank peer, unsigned id, Piece header, Piece data, bool rendezvous, Operation& operation) override;
  void fetch(void* announced, void* into, uint64_t bytes, Operation& operation) override;
  void drop(void* announced) override;

  /// Moves something: true. Never waits.
  bool progress();
  /// Why UCX cannot go on; "" if it can. If not, nothing of it is called any more.
  const std::string& fatal() const { return fatal_; }
  /// Has all that was sent left this process? Starts to see to it.
  void flush();
  bool flushed() const { return !unflushed_ && no_flush_awaited(); }
  /// Closes all endpoints at once: UCX uses none of the memory of sends or fetches any more.
  void close() noexcept;
  /// Becomes readable with the next event, after arm() returned true; −1: there is none.
  int descriptor() const { return descriptor_; }
  bool arm();

 private:
  struct Endpoint {
    ucp_ep_h handle = nullptr;
    ucs_status_t status = UCS_OK;
    Operation connecting;
  };
  struct Free {
    void operator()(ucp_context_h context) const;
    void operator()(ucp_worker_h worker) const;
  };

  /// Calls UCX; with what it gives up for, the worker is left alone for good. False then, or if it was before.
  template <class Call>
  bool guarded(const Call& call);
  void check() const;
  bool no_flush_awaited() const;
  void make_worker();
  void close_endpoints();
  void set_handler(unsigned id, ucp_am_recv_callback_t callback);
  ucp_request_param_t parameters(Operation& operation);
  static void begin(ucs_status_ptr_t request, Operation& operation);

  Sink& sink_;
  std::string fatal_;
  std::unique_ptr<std::remove_pointer_t<ucp_context_h>, Free> context_;
  std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, Free> worker_;
  std::string address_;
  std::map<Rank, Endpoint> endpoints_;  // a map: addresses are stable
  int descriptor_ = -1;
  bool unflushed_ = false;
  int idle_turns_ = 0;  // of progress() that moved nothing, since the last send
  std::list<Operation> flushes_;
  Deadline flush_until_ = Deadline::in(0);
  uint64_t open_ = 0;  // operations under way
};

}  // namespace tutti::transports::ucx
