// What a communicator's calls run on: its fabric, links and backends, and what ranks agree on with them. It is made
// when the communicator is joined, freed when it is suspended, and made again when it is resumed.
#include <algorithm>
#include <map>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "comm/communicator.hpp"
#include "comm/configuration.hpp"

namespace tutti::comm {

void Communicator::wire_up(JoinOptions options) {
  compare_configurations(*endpoint_);
  std::vector<std::string> hosts;
  for (Rank peer = 0; peer < ranks(); ++peer) hosts.push_back(endpoint_->process_id(peer).host);
  groups_given_ = options.groups != nullptr || !env().groups.empty();
  groups_ = options.groups != nullptr ? std::move(options.groups) : groups_of(hosts, env().groups);
  wanted_processors_ = std::move(options.processors);
  wanted_processors_.resize(exec::backends().size(), exec::kNoProcessor);
  endpoint_->serve_board(board_service({log_, board_}, *endpoint_));
  make_data_path(std::move(options.arenas));
  agree();
  processors_ = served_processors();
}

void Communicator::make_data_path(std::shared_ptr<link::SegmentFiles> arenas) {
  shown_.emplace(*endpoint_, title(), log_);
  fabric_ = std::make_unique<Fabric>(*endpoint_, timeouts_.of_init(), std::move(arenas));
  links_ = std::make_unique<exec::Links>(*fabric_);
  diagnostics_.use_links(links_.get());
  on_.push_back(std::make_unique<BackendCalls>(make_host_backend(), rank(), ranks()));
  on_.front()->planner().count_in(log_->totals);
  const auto& others = exec::backends();
  for (size_t i = 0; i < wanted_processors_.size(); ++i) {
    on_.push_back(std::make_unique<BackendCalls>(*others[i], wanted_processors_[i],
                                                 BackendCalls::Context{.endpoint = *endpoint_,
                                                                       .fabric = *fabric_,
                                                                       .board = *board_,
                                                                       .title = title(),
                                                                       .timeouts = timeouts_,
                                                                       .backoff = backoff_,
                                                                       .observer = diagnostics_,
                                                                       .cut_off = cut_off_}));
    if (on_.back()->refused().empty()) on_.back()->planner().count_in(log_->totals);
  }
}

void Communicator::agree() {
  const Deadline deadline = Deadline::in(timeouts_.of_init());
  std::map<std::string, BackendReport> reports;
  for (size_t i = 1; i < on_.size(); ++i) reports[on_[i]->name()] = on_[i]->report();
  Agreement agreed = comm::agree(*endpoint_, *fabric_, groups_, groups_given_, std::move(reports), deadline);
  backoff_ = agreed.backoff;
  if (agreed.inputs.hand_over.reading != transports::ReadAccess::None) fabric_->all_read();
  on_.front()->use(agreed.inputs, agreed.table, groups_);
  for (size_t i = 1; i < on_.size(); ++i) on_[i]->agree(agreed, groups_, Deadline::in(timeouts_.of_init()));
  inputs_ = agreed.inputs;
  host_ranks_ = note_host_ranks(std::move(agreed.host_ranks));
  shown_.emplace(*endpoint_, title(), log_, transports_of(agreed.reports[static_cast<size_t>(rank())]), fabric_.get());
  log_decisions(std::move(agreed));
}

std::vector<int> Communicator::served_processors() const {
  std::vector<int> all;
  for (size_t i = 1; i < on_.size(); ++i) all.push_back(on_[i]->processor());
  return all;
}

/// All but the fabric: programs, links, windows' streams, backends.
void Communicator::free_data_path() {
  current_ = nullptr;
  current_on_ = nullptr;
  shown_.reset();
  host_ranks_.reset();
  drop_device_windows();
  while (!on_.empty()) on_.pop_back();
  decision_logs_.clear();
  windows_.reset();
  diagnostics_.use_links(nullptr);
  links_.reset();
}

Communicator::~Communicator() {
  shown_.reset();
  drop_device_windows();
  while (!on_.empty()) on_.pop_back();
  Fabric::retire(std::move(fabric_), endpoint_);
}

void Communicator::retire() {
  free_data_path();
  Fabric::retire(std::move(fabric_), endpoint_);
}

}  // namespace tutti::comm
