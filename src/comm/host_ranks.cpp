#include "comm/host_ranks.hpp"

#include <mutex>
#include <utility>

namespace tutti::comm {
namespace {

struct Noted {
  std::mutex mutex;
  std::vector<std::weak_ptr<const RanksByProcess>> communicators;
};

Noted& noted() {
  static auto* const kNoted = new Noted;  // never destroyed: used until the process ends
  return *kNoted;
}

void take_longer(RanksByProcess& into, const RanksByProcess& from) {
  for (const auto& [process, ranks] : from) {
    std::vector<Cores>& known = into[process];
    if (ranks.size() > known.size()) known = ranks;
  }
}

}  // namespace

std::shared_ptr<const RanksByProcess> note_host_ranks(RanksByProcess ranks) {
  auto entry = std::make_shared<const RanksByProcess>(std::move(ranks));
  const std::lock_guard lock(noted().mutex);
  std::erase_if(noted().communicators, [](const auto& communicator) { return communicator.expired(); });
  for (const auto& communicator : noted().communicators) {  // splits of the same ranks are counted once
    if (auto known = communicator.lock(); known != nullptr && *known == *entry) return known;
  }
  noted().communicators.push_back(entry);
  return entry;
}

std::vector<Cores> known_host_ranks(const RanksByProcess& ranks) {
  RanksByProcess together = ranks;
  {
    const std::lock_guard lock(noted().mutex);
    for (const auto& communicator : noted().communicators) {
      if (const auto known = communicator.lock()) take_longer(together, *known);
    }
  }
  std::vector<Cores> all;
  for (const auto& [process, of_process] : together) all.insert(all.end(), of_process.begin(), of_process.end());
  return all;
}

}  // namespace tutti::comm
