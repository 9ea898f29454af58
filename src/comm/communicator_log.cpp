// A communicator's log messages, and the information on its last call.
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"

namespace tutti::comm {

void Communicator::log_decisions(Agreement agreed) {
  if (rank() == 0 && log_enabled(LogLevel::Info)) {
    log_info("{}", summary(*endpoint_, *fabric_, *groups_, agreed));
  }
  const bool explains = env().explain && rank() == 0;
  if (!explains && !log_enabled(LogLevel::Debug)) return;
  decision_log_ = std::make_unique<DecisionLog>(rank(), std::move(agreed.setting));
  planner_->on_new_program(
      [this](const Prepared& made) { decision_log_->log_first(made.key.spec, call_info(made, *fabric_)); });
}

CallInfo Communicator::last_call() {
  if (current_ == nullptr) return {.algorithm = "none", .transport = "none", .delivery = "none", .why = ""};
  CallInfo info = call_info(*current_, *fabric_);
  if (current_on_device_ && info.transport != "none") info.transport = device_calls_->executor().transport().name();
  return info;
}

void Communicator::trace(Work work, const Status& status, double seconds) {
  const CallInfo info = last_call();
  for (const Call& call : work) {
    const bool numbered = call.spec.collective != Collective::SendRecv;
    log_trace("rank {}: {}{}: {} over {}, {:.1f} us{}{}", rank(), numbered ? fmt::format("call {} ", calls_) : "",
              describe(call.spec), info.algorithm, info.transport, seconds * 1e6,
              status.ok() ? "" : ", failed: ", status.text);
  }
}

}  // namespace tutti::comm
