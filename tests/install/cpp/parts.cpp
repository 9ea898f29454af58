#include <iostream>
#include <tutti/tutti.hpp>
#include <vector>

int main() try {
  auto comm = tutti::Communicator::from_environment();
  const int rank = comm.rank(), ranks = comm.size();

  // A stream: calls return at once and run in order on a thread of its own, while this one does something else.
  tutti::Stream stream;
  std::vector<float> gradient(1 << 20, 1.0f);
  comm.all_reduce(gradient, tutti::Op::Sum, stream);

  // A group: all of its sends and receives run at the same time, so a ring of them cannot deadlock.
  const std::vector<int> mine(4, rank);
  std::vector<int> from_left(4);
  tutti::Group group;
  comm.send(mine, (rank + 1) % ranks);
  comm.recv(from_left, (rank + ranks - 1) % ranks);
  group.end();

  // A split: ranks of one colour form a communicator of their own.
  auto half = comm.split(rank % 2, rank);
  std::vector<int> members(1, 1);
  half.all_reduce(members);

  stream.synchronize();  // only now the gradient is there
  std::cout << "rank " << rank << ": left is " << from_left[0] << ", " << members[0] << " of my colour, sum "
            << gradient[0] << '\n';
  half.close();
  comm.close();
} catch (const tutti::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
