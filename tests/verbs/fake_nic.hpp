// A device in this process that is as unhelpful as the standard permits, and worse if it is told to:
//
//   - bytes of data are placed in pieces and in any order, until a notice comes on the same queue;
//   - queues overtake each other; a work request's source is read late, right before its completion;
//   - the receiver is not ready from time to time (RNR), so a notice is tried again;
//   - completions that a later one of the same queue implies are dropped;
//   - an atomic step that is atomic between devices only reads the word, and stores it some turns later.
//
// Each access is checked as a device would: keys, bounds, access rights, room in the queues.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "transports/verbs/nic.hpp"

namespace tutti::test {

/// How the devices that are made from now on behave.
struct FakeNicRules {
  bool immediate = true;      ///< else notices are sends
  bool adaptive = false;      ///< NicInfo
  bool dmabuf = false;        ///< NicInfo
  uint32_t max_inline = 220;  ///< bytes
  uint32_t max_regions = 1u << 30;
  uint32_t lazy = 4;         ///< one of so many turns of a queue moves something
  uint32_t not_ready = 8;    ///< one of so many notices finds no receive at first; 0: none
  uint32_t drop = 4;         ///< one of so many implied completions is dropped; 0: none
  bool drop_all = false;     ///< no completion of own work comes
  bool never_ready = false;  ///< every notice finds no receive: the device gives up
  bool apart = false;        ///< no queue reaches another one: the device gives up
  transports::RemoteAtomics atomics = transports::RemoteAtomics::BetweenDevices;
  uint32_t max_message = 1u << 30;  ///< bytes of a work request
};
FakeNicRules& fake_nic_rules();
/// The same while other threads use devices.
void set_fake_nic_rules(const FakeNicRules& rules);

/// Regions that are registered now, on all devices.
uint32_t fake_regions();
/// No queue answers any more, as when the network fails or the peers' queue pairs are destroyed.
void deafen_fake_queues();
/// Nothing of what this queue posts moves any more, and no completion comes, as long as a device tries again.
void hold_fake_queue(uint32_t number);

/// Work requests that devices have carried out or refused so far, but for those without bytes.
uint64_t fake_works();
/// Atomic steps among them.
uint64_t fake_atomic_steps();
/// Devices work by themselves while it lives, not only when somebody polls.
class FakeWorker {
 public:
  FakeWorker();
  FakeWorker(const FakeWorker&) = delete;
  FakeWorker& operator=(const FakeWorker&) = delete;

 private:
  std::jthread thread_;
};

/// Raises an event: one for each queue, or one of the port or device, for the device that asks first.
void raise_fake_events(const char* text, bool of_queues, bool fatal = false);

std::unique_ptr<transports::verbs::Nic> make_fake_nic();

}  // namespace tutti::test
