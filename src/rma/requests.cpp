#include "rma/requests.hpp"

#include "link/mapped_memory.hpp"
#include "rma/refusals.hpp"

namespace tutti::rma {
namespace {

/// Else what is sent would have zeros in place of the bytes.
void check_here(std::span<const std::byte> bytes) {
  if (link::is_mapped(bytes.data(), bytes.size())) return;
  throw_not_here(bytes);
}

}  // namespace

void Requests::tell(const Request& request, std::span<const std::byte> bytes, double limit) {
  Channel& channel = connections_.channel(peer_, Deadline::in(limit));
  channel.is_dirty = true;
  channel.send(request, bytes, limit);
}

uint64_t Requests::ask(const Request& request, std::span<std::byte> into, double limit) {
  return connections_.channel(peer_, Deadline::in(limit)).ask(request, into, limit);
}

void Requests::put(std::span<const std::byte> source, uint64_t offset, double limit) {
  check_here(source);
  tell({.what = Request::What::Put, .window = window_, .offset = offset, .bytes = source.size()}, source, limit);
}

void Requests::get(std::span<std::byte> into, uint64_t offset, double limit) {
  check_here(into);
  ask({.what = Request::What::Get, .window = window_, .offset = offset, .bytes = into.size()}, into, limit);
}

void Requests::signal(uint32_t signal, double limit) {
  tell({.what = Request::What::Signal, .window = window_, .operand = signal}, {}, limit);
}

uint64_t Requests::add(uint64_t operand, uint64_t offset, double limit) {
  return ask({.what = Request::What::Add, .window = window_, .offset = offset, .operand = operand}, {}, limit);
}

uint64_t Requests::compare_swap(uint64_t expected, uint64_t desired, uint64_t offset, double limit) {
  return ask({.what = Request::What::CompareSwap,
              .window = window_,
              .offset = offset,
              .operand = desired,
              .expected = expected},
             {}, limit);
}

}  // namespace tutti::rma
