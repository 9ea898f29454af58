#include <iostream>
#include <tutti/tutti.hpp>
#include <vector>

int main() try {
  auto comm = tutti::Communicator::from_environment();
  std::vector<float> data(1000, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(data);  // in place: each rank's data becomes the sum of all ranks'
  std::cout << "rank " << comm.rank() << " of " << comm.size() << ": the sum is " << data[999] << '\n';
  comm.close();
} catch (const tutti::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
