// A client's side of NCCL's RAS protocol, version 2: lines of text that ask, and what is answered.
#pragma once

#include <string>
#include <string_view>

namespace tutti::control::ras {

class Session {
 public:
  /// What to do after the replies of take() have been sent.
  enum class Then : uint8_t { Listen, Report, Close };

  /// More bytes of the client; adds the replies to `replies`. After Report nothing more is read.
  Then take(std::string_view bytes, std::string& replies);

  bool json() const { return json_; }
  bool verbose() const { return verbose_; }

 private:
  static constexpr size_t kMaxLine = 1023;  // bytes; a longer one ends the connection
  bool obey(std::string line, std::string& replies);

  std::string rest_;  // of a line that has not ended
  bool json_ = false, verbose_ = false;
};

}  // namespace tutti::control::ras
