// What was found to be slow in a communicator: each is to be warned of once, and told to those who ask for as long as
// it is so.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tutti::control {

class SlowFindings {
 public:
  static constexpr int kKept = 16;         ///< times without it after which one is forgotten
  static constexpr size_t kMaxWarned = 8;  ///< of a communicator; more would fill the log

  /// What is slow now, in words, by name ("rank 3"). Returns what to warn of.
  std::vector<std::string> update(const std::map<std::string, std::string>& found);

  /// Nothing is known to be slow any more. What was warned of is not warned of again.
  void forget() { now_.clear(); }

  /// What is slow, or was a moment ago.
  std::vector<std::string> texts() const;

 private:
  struct Finding {
    std::string text;
    int absent = 0;  // times since it was found last
  };
  std::map<std::string, Finding> now_;
  std::set<std::string> warned_;
};

}  // namespace tutti::control
