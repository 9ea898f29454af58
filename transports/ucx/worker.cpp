#include "transports/ucx/worker.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "transports/ucx/fatal.hpp"
#include "transports/ucx/wire.hpp"

namespace tutti::transports::ucx {
namespace {

constexpr double kCloseLimit = 2;  // seconds
constexpr int kIdleTurns = 2;
constexpr double kFlushPatience = 20e-3;  // seconds
constexpr size_t kMaxFlushes = 64;        // that are not answered

/// Throws Error unless `status` is good.
void expect(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw_error(Code::SystemError, "ucx: {} failed: {}", what, ucs_status_string(status));
}

ucp_context_h make_context() {
  ucp_config_t* config = nullptr;
  expect(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 0;
  params.name = "tutti";
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  expect(status, "ucp_init");
  return context;
}

void finish(ucs_status_t status, Operation& operation) {
  operation.state = status == UCS_OK ? Operation::State::Done : Operation::State::Failed;
  operation.text = ucs_status_string(status);
  --*operation.open;
}

void on_sent(void* request, ucs_status_t status, void* operation) {
  finish(status, *static_cast<Operation*>(operation));
  ucp_request_free(request);
}

void on_fetched(void* request, ucs_status_t status, size_t, void* operation) { on_sent(request, status, operation); }

void on_broken(void* endpoint_status, ucp_ep_h, ucs_status_t status) {
  *static_cast<ucs_status_t*>(endpoint_status) = status;
}

ucs_status_t on_message(void* sink, const void* header, size_t header_bytes, void* data, size_t bytes,
                        const ucp_am_recv_param_t* param) {
  const bool announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool kept = static_cast<Worker::Sink*>(sink)->take_message({header, header_bytes}, data, bytes, announced);
  return kept ? UCS_INPROGRESS : UCS_OK;
}

ucs_status_t on_credit(void* sink, const void* header, size_t header_bytes, void*, size_t, const ucp_am_recv_param_t*) {
  static_cast<Worker::Sink*>(sink)->take_credit({header, header_bytes});
  return UCS_OK;
}

/// Calls UCX for the last time.
template <class Call>
void end(const Call& call) {
  try {
    const Guard guard;
    call();
  } catch (const Fatal&) {  // its memory stays
  }
}

}  // namespace

std::string why_not() {
  remove_signal_handlers();
  unsigned major = 0, minor = 0, patch = 0;
  ucp_get_version(&major, &minor, &patch);
  if (major < 1 || (major == 1 && minor < 12)) {
    return fmt::format("UCX {}.{}.{} is too old: 1.12 or newer is needed", major, minor, patch);
  }
  return "";
}

Worker::Worker(Sink& sink) : sink_(sink) {
  guarded([&] {
    context_.reset(make_context());
    make_worker();
  });
  check();
}

template <class Call>
bool Worker::guarded(const Call& call) {
  if (!fatal_.empty()) return false;
  try {
    const Guard guard;
    call();
    return true;
  } catch (const Fatal& fatal) {
    fatal_ = fatal.text;
    log_warn("ucx: UCX cannot go on: {}", fatal_);
    (void)worker_.release();  // their destruction would trust what UCX has given up
    (void)context_.release();
    return false;
  }
}

/// Throws Error if UCX has given up.
void Worker::check() const {
  if (!fatal_.empty()) throw_error(Code::SystemError, "ucx: UCX cannot go on, as it reports: {}", fatal_);
}

void Worker::make_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  expect(ucp_worker_create(context_.get(), &params, &worker), "ucp_worker_create");
  worker_.reset(worker);
  set_handler(kMessageId, on_message);
  set_handler(kCreditId, on_credit);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  expect(ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker, address);
  if (bytes > kMaxAddress) {
    throw_error(Code::Unsupported,
                "ucx: the worker's address has {} bytes, more than {}; choose fewer devices "
                "(UCX_NET_DEVICES) or transports (UCX_TLS)",
                bytes, kMaxAddress);
  }
  if (ucp_worker_get_efd(worker, &descriptor_) != UCS_OK) descriptor_ = -1;
}

void Worker::set_handler(unsigned id, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = callback;
  param.arg = &sink_;
  expect(ucp_worker_set_am_recv_handler(worker_.get(), &param), "ucp_worker_set_am_recv_handler");
}

Worker::~Worker() { close(); }

void Worker::Free::operator()(ucp_context_h context) const {
  end([=] { ucp_cleanup(context); });
}
void Worker::Free::operator()(ucp_worker_h worker) const {
  end([=] { ucp_worker_destroy(worker); });
}

void Worker::connect(Rank peer, const std::string& address) {
  if (endpoints_.contains(peer)) return;
  Endpoint& endpoint = endpoints_[peer];
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_broken, .arg = &endpoint.status};
  ucs_status_t status = UCS_OK;
  guarded([&] {
    status = ucp_ep_create(worker_.get(), &params, &endpoint.handle);
    if (status != UCS_OK) return;
    const ucp_request_param_t flush = parameters(endpoint.connecting);
    begin(ucp_ep_flush_nbx(endpoint.handle, &flush), endpoint.connecting);
  });
  check();
  if (status == UCS_OK) return;
  endpoints_.erase(peer);
  throw_error(Code::SystemError,
              "ucx: rank {} cannot be reached: {}; UCX finds no transport that both ranks have and that reports "
              "failures (see ucx_info -d, UCX_TLS, UCX_NET_DEVICES)",
              peer, ucs_status_string(status));
}

const char* Worker::broken(Rank peer) const {
  const auto found = endpoints_.find(peer);
  return found == endpoints_.end() || found->second.status == UCS_OK ? nullptr
                                                                     : ucs_status_string(found->second.status);
}

void Worker::begin(ucs_status_ptr_t request, Operation& operation) {
  if (UCS_PTR_IS_PTR(request)) return;  // the callback finishes it, and may have done so
  finish(UCS_PTR_RAW_STATUS(request), operation);
}

/// Begins an operation, of which UCX shall tell when it is done.
ucp_request_param_t Worker::parameters(Operation& operation) {
  operation = {.state = Operation::State::UnderWay, .open = &open_};
  ++open_;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &operation;
  return param;
}

void Worker::send(Rank peer, unsigned id, Piece header, Piece data, bool rendezvous, Operation& operation) {
  ucp_request_param_t param = parameters(operation);
  const auto endpoint = endpoints_.find(peer);
  if (endpoint == endpoints_.end() || endpoint->second.handle == nullptr) return finish(UCS_ERR_UNREACHABLE, operation);
  if (endpoint->second.status != UCS_OK) return finish(endpoint->second.status, operation);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  unflushed_ = true;
  idle_turns_ = 0;
  guarded([&] {
    begin(ucp_am_send_nbx(endpoint->second.handle, id, header.at, header.bytes, data.at, data.bytes, &param),
          operation);
  });
}

void Worker::fetch(void* announced, void* into, uint64_t bytes, Operation& operation) {
  ucp_request_param_t param = parameters(operation);
  param.cb.recv_am = on_fetched;
  unflushed_ = true;  // the peer is told when it is done
  idle_turns_ = 0;
  guarded([&] { begin(ucp_am_recv_data_nbx(worker_.get(), announced, into, bytes, &param), operation); });
}

void Worker::drop(void* announced) {
  guarded([&] { ucp_am_data_release(worker_.get(), announced); });
}

bool Worker::progress() {
  bool moved = false;
  guarded([&] { moved = ucp_worker_progress(worker_.get()) != 0; });
  idle_turns_ = moved ? 0 : idle_turns_ + 1;
  return moved;
}

/// UCX's flush of a worker returns at once if nothing waits to be sent. Else it flushes endpoints, and over TCP each
/// then waits for an answer that the peer gives when it makes progress, which it may not do any more. So it begins when
/// nothing moves, and what has not been answered after a while counts as sent.
void Worker::flush() {
  if (!unflushed_ || idle_turns_ < kIdleTurns || !no_flush_awaited()) return;
  unflushed_ = false;
  std::erase_if(flushes_, [](const Operation& flush) { return !flush.under_way(); });
  flush_until_ = Deadline::in(kFlushPatience);
  if (flushes_.size() >= kMaxFlushes) return;
  Operation& flush = flushes_.emplace_back();
  const ucp_request_param_t param = parameters(flush);
  guarded([&] { begin(ucp_worker_flush_nbx(worker_.get(), &param), flush); });
}

bool Worker::no_flush_awaited() const {
  return flushes_.empty() || !flushes_.back().under_way() || flush_until_.passed();
}

void Worker::close() noexcept {
  guarded([&] { close_endpoints(); });
}

void Worker::close_endpoints() {
  std::vector<void*> closing;
  for (auto& [peer, endpoint] : endpoints_) {
    if (endpoint.handle == nullptr) continue;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint.handle, &param);
    endpoint.handle = nullptr;
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
  }
  const Deadline limit = Deadline::in(kCloseLimit);
  for (void* request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && !limit.passed()) ucp_worker_progress(worker_.get());
    ucp_request_free(request);
  }
  while (open_ > 0 && !limit.passed()) ucp_worker_progress(worker_.get());  // they fail
}

bool Worker::arm() {
  bool armed = false;
  guarded([&] { armed = ucp_worker_arm(worker_.get()) == UCS_OK; });
  return armed;
}

}  // namespace tutti::transports::ucx
