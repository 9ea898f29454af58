#include "fuzz/member/answers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "control/bootstrap/dial.hpp"
#include "fuzz/member/requests.hpp"

namespace tutti::fuzz {

using control::pack;

std::string take_in(const Fd& fd, const Key& key) {
  const auto hello = challenge::make_hello();
  send_all(fd.get(), {reinterpret_cast<const char*>(&hello), sizeof hello}, brief());
  challenge::Claim claim;
  recv_all(fd.get(), &claim, sizeof claim, brief());
  const auto proof = challenge::make_proof(key, hello, claim);
  send_all(fd.get(), {reinterpret_cast<const char*>(&proof), sizeof proof}, brief());
  return control::receive_frame(fd.get(), control::kMaxToServer, brief());
}

void prove(const Fd& fd, const Key& key) {
  challenge::Hello hello;
  recv_all(fd.get(), &hello, sizeof hello, brief());
  const auto claim = challenge::make_claim(key, hello);
  send_all(fd.get(), {reinterpret_cast<const char*>(&claim), sizeof claim}, brief());
  challenge::Proof proof;
  recv_all(fd.get(), &proof, sizeof proof, brief());
}

std::string framed(const std::string& body) {
  std::string frame(4, '\0');
  for (size_t i = 0; i < 4; ++i) frame[i] = static_cast<char>(body.size() >> (8 * i));
  return frame + body;
}

/// Memory to attach to a reply: sealed or not, with random content.
Fd some_memory(Words& words) {
  const uint8_t how = words.byte();
  Fd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string bytes = words.text();
  if (ftruncate(fd.get(), 4096 * (1 + how % 32)) != 0) return fd;
  if (!bytes.empty()) static_cast<void>(pwrite(fd.get(), bytes.data(), bytes.size(), how & 0x40 ? 4096 : 0));
  if ((how & 0x80) == 0) fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd;
}

namespace {

/// Of a channel's link in the arena. Collectives of two ranks have a few channels, counted from 0.
uint64_t slot_of(uint32_t channel) {
  constexpr uint64_t kPlace = 4096, kPlaces = 8;
  return kPlace * (channel < Answers::kTransfers ? channel % kPlaces : kPlaces);
}

}  // namespace

Answers::Answers(const Accomplice& accomplice) : unix_(accomplice.listener()) {
  std::thread([this] { serve(); }).detach();  // until the process ends
}

void Answers::restart(const Key& key) {
  const std::lock_guard lock(mutex_);
  key_ = key;
  prepared_.clear();
  streams_.clear();
  arena_ = {};
}

void Answers::prepare(std::string frame, Fd fd) {
  const std::lock_guard lock(mutex_);
  prepared_.push_back({std::move(frame), std::move(fd)});
}

std::string Answers::receive() {
  const std::lock_guard lock(mutex_);
  std::string bytes(streams_.empty() ? 0 : 1 << 16, '\0');
  const ptrdiff_t got = streams_.empty() ? 0 : recv_now(streams_.back().get(), bytes.data(), bytes.size());
  bytes.resize(static_cast<size_t>(std::max<ptrdiff_t>(0, got)));
  return bytes;
}

link::LinkMemory* Answers::link(uint32_t channel) {
  const std::lock_guard lock(mutex_);
  if (arena_.base() == nullptr) return nullptr;
  return reinterpret_cast<link::LinkMemory*>(arena_.base() + slot_of(channel));
}

void Answers::serve() {
  for (;;) {
    std::array<pollfd, 2> doors{pollfd{unix_, POLLIN, 0}, pollfd{tcp_.get(), POLLIN, 0}};
    poll(doors.data(), doors.size(), -1);
    for (const pollfd& door : doors) {
      if (door.revents == 0) continue;
      try {
        if (Fd fd = accept_now(door.fd)) answer(std::move(fd));
      } catch (const Error&) {  // the asker has given up
      }
    }
  }
}

void Answers::answer(Fd fd) {
  Key key;
  {
    const std::lock_guard lock(mutex_);
    key = key_;
  }
  const std::string request = take_in(fd, key);
  const std::lock_guard lock(mutex_);
  Prepared said;
  if (prepared_.empty()) {
    said = honest(request);
  } else {
    said = std::move(prepared_.front());
    prepared_.pop_front();
  }
  if (said.fd) return send_with_fd(fd.get(), said.frame, said.fd.get(), brief());
  send_all(fd.get(), said.frame, brief());
  if (control::kind_of(request) == control::Kind::Stream) streams_.push_back(std::move(fd));
}

/// Under the lock.
Answers::Prepared Answers::honest(const std::string& request) {
  if (control::kind_of(request) == control::Kind::Stream) return {pack(control::Accepted{}), Fd()};
  const auto ask = control::unpack<control::Ask>(request);
  if (ask.service == "readable") return {pack(control::Reply{"yes"}), Fd()};
  if (ask.service != "shm" && ask.service != "shm-map") return {pack(control::Reply{"no"}), Fd()};
  if (arena_.base() == nullptr) arena_ = link::Segment::create(kArena);
  std::string answer = bytes_of(RegionAnswer{kMagic, kArena});
  if (LinkRequest link{}; ask.service == "shm" && ask.request.size() == sizeof link) {
    std::memcpy(&link, ask.request.data(), sizeof link);
    answer = bytes_of(LinkAnswer{kMagic, 0, kArena, slot_of(link.channel)});
  }
  return {pack(control::Reply{answer}), Fd(::fcntl(arena_.file()->get(), F_DUPFD_CLOEXEC, 0))};
}

}  // namespace tutti::fuzz
