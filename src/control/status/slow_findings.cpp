#include "control/status/slow_findings.hpp"

#include <iterator>

namespace tutti::control {

std::vector<std::string> SlowFindings::update(const std::map<std::string, std::string>& found) {
  std::vector<std::string> news;
  for (const auto& [name, text] : found) {
    now_[name] = {.text = text};
    if (warned_.size() < kMaxWarned && warned_.insert(name).second) news.push_back(text);
  }
  for (auto finding = now_.begin(); finding != now_.end();) {
    const bool over = !found.contains(finding->first) && ++finding->second.absent >= kKept;
    finding = over ? now_.erase(finding) : std::next(finding);
  }
  return news;
}

std::vector<std::string> SlowFindings::texts() const {
  std::vector<std::string> all;
  for (const auto& [name, finding] : now_) all.push_back(finding.text);
  return all;
}

}  // namespace tutti::control
