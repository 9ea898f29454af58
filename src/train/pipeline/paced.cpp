#include <chrono>
#include <thread>

#include "tutti/train/unit.hpp"

namespace tutti::train {
namespace {

class Paced final : public Unit {
 public:
  Paced(std::unique_ptr<Unit> unit, double seconds) : Unit(unit->name()), unit_(std::move(unit)), seconds_(seconds) {
    layout_ = unit_->layout();
  }
  size_t input_count(size_t tokens) const override { return unit_->input_count(tokens); }
  size_t output_count(size_t tokens) const override { return unit_->output_count(tokens); }

  Tensor forward(const Call& call, const Tensor& x, std::unique_ptr<Record>& record) override {
    const Pace pace(seconds_);
    return unit_->forward(call, x, record);
  }
  Tensor backward_input(const Call& call, Record& record, const Tensor& dy) override {
    const Pace pace(seconds_);
    return unit_->backward_input(call, record, dy);
  }
  void backward_weight(const Call& call, Record& record, float* gradients) override {
    const Pace pace(seconds_);
    unit_->backward_weight(call, record, gradients);
  }

 private:
  /// Sleeps at the end of its scope until the time is over.
  class Pace {
   public:
    using Clock = std::chrono::steady_clock;
    explicit Pace(double seconds)
        : until_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
    Pace(const Pace&) = delete;
    Pace& operator=(const Pace&) = delete;
    ~Pace() { std::this_thread::sleep_until(until_); }

   private:
    Clock::time_point until_;
  };
  std::unique_ptr<Unit> unit_;
  double seconds_;
};

}  // namespace

std::unique_ptr<Unit> make_paced(std::unique_ptr<Unit> unit, double seconds) {
  return std::make_unique<Paced>(std::move(unit), seconds);
}

}  // namespace tutti::train
