// One-sided calls: each rank puts a letter into the next rank's mailbox, where nobody makes a call to receive it, and a
// signal says that it is there. Afterwards all ranks count in one word of rank 0.
//
//   tutti run -n 4 -- ./mailbox 3
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include <tutti/tutti.hpp>

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  try {
    const auto world = tutti::Communicator::from_environment();
    const int me = world.rank(), ranks = world.size();
    const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;

    enum Signal { kLetter, kEmpty };                // two of the signals 0 to TUTTI_SIGNALS - 1
    auto memory = tutti::allocate<uint64_t>(1024);  // of 8 KiB on, processes of a host map it: [0] is the letter, …
    tutti::Window<uint64_t> mailbox(world, std::span(memory.data(), memory.size()));
    for (int round = 0; round < rounds; ++round) {
      const auto letter = static_cast<uint64_t>(100 * round + me);
      mailbox.put_signal(std::span(&letter, 1), next, 0, kLetter);
      mailbox.wait_signal(previous, kLetter);  // from here on memory[0] holds the letter
      std::printf("rank %d: %llu from rank %d\n", me, static_cast<unsigned long long>(memory[0]), previous);
      mailbox.signal(previous, kEmpty);  // it has been read: the next one may come
      mailbox.wait_signal(next, kEmpty);
      mailbox.atomic_add(1, 0, 1);  // … and [1], on rank 0, the word in which all count
    }
    mailbox.barrier();
    if (me == 0) std::printf("letters: %llu\n", static_cast<unsigned long long>(memory[1]));
    mailbox.close();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
