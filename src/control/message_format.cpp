#include "control/message_format.hpp"

namespace tutti::control {

Kind kind_of(std::string_view body) {
  if (body.empty()) throw_error(Code::ProtocolError, "an empty control message");
  return static_cast<Kind>(body[0]);
}

}  // namespace tutti::control
