// What a failed work request means, and what to do.
#pragma once

#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

inline const char* meaning_of(Completion::Result result) {
  switch (result) {
    case Completion::Result::Unreachable:
      return "the peer's device does not answer: its process or host is gone, or the network between them fails";
    case Completion::Result::NotReady:
      return "the peer's device had no room for a notice for too long (RNR): its process hangs, or is another version";
    case Completion::Result::Refused:
      return "the peer's device refused access to the memory that the peer had advertised";
    case Completion::Result::Flushed:
      return "the queue pair is in error state, and the device does not say why";
    default:
      return "the device could not carry out a work request: is its network interface down?";
  }
}

}  // namespace tutti::transports::verbs
