// Error codes, and the exception that carries a code and a text.
#pragma once

#include <stdexcept>
#include <string>

namespace tutti {

/// The kind of error. The values are those of `tuttiResult_t`.
enum class Code : int {
  Ok = 0,
  InvalidArgument = 1,  ///< an argument is wrong; nothing was touched
  InvalidUsage = 2,     ///< the call does not fit the state: after destroy, in a forked child, outside a group, …
  SystemError = 3,      ///< the operating system refused a request
  OutOfMemory = 4,      ///< not enough memory
  Timeout = 5,          ///< a wait passed its deadline
  PeerFailed = 6,       ///< another rank died or its host was lost
  Mismatch = 7,         ///< ranks made different calls
  Aborted = 8,          ///< the communicator was aborted
  ProtocolError = 9,    ///< bytes from a peer were invalid
  Unsupported = 10,     ///< this build or machine does not support it
  InternalError = 11,   ///< a defect of Tutti itself
  InProgress = 12,      ///< not finished yet (asynchronous calls only)
  Revoked = 13          ///< a rank has revoked the communicator, so that all ranks go on in another one
};
inline constexpr int kCodes = 14;

/// The name of a code: "invalid argument", "time-out", …
constexpr const char* name_of(Code code) {
  constexpr const char* kNames[kCodes] = {
      "ok",       "invalid argument", "invalid usage",  "system error", "out of memory",  "time-out",    "peer failed",
      "mismatch", "aborted",          "protocol error", "unsupported",  "internal error", "in progress", "revoked"};
  const int index = static_cast<int>(code);
  return index >= 0 && index < kCodes ? kNames[index] : "unknown code";
}

/// Thrown by set-up code and by the C++ API. The text says what happened, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& what) : std::runtime_error(what), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

}  // namespace tutti
