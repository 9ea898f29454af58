// Two ranks are threads of this process: a program to be run under ThreadSanitizer.
#include <cstdlib>
#include <thread>
#include <tutti/tutti.hpp>
#include <vector>

int main() {
  const tuttiUniqueId id = tutti::Communicator::unique_id();
  const auto rank = [&](int number) {
    tutti::Communicator comm(2, id, number);
    std::vector<float> data(1 << 20);
    for (int i = 0; i < 3; ++i) {
      data.assign(data.size(), static_cast<float>(number + i));
      comm.all_reduce(data);
      if (data[7] != static_cast<float>(1 + 2 * i)) std::abort();
    }
    comm.close();
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}
