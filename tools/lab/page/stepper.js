// A slider over steps with buttons: back, play, next. In the page: NAME-step, NAME-back, NAME-play, NAME-next.

class Stepper {
  constructor(name, changed) {
    this.changed = changed;
    this.last = 0;
    this.slider = new Slider(`${name}-step`, 'step', [0], 0, (t) => `${t} of ${this.last}`, () => {
      this.stop();
      changed();
    });
    this.button = byId(`${name}-play`);
    this.button.addEventListener('click', () => this.timer ? this.stop() : this.play());
    byId(`${name}-next`).addEventListener('click', () => this.move(1));
    byId(`${name}-back`).addEventListener('click', () => this.move(-1));
  }

  get value() {
    return this.slider.value;
  }

  /** `last` steps from now on. */
  restart(last, at = 0) {
    this.stop();
    this.last = last;
    this.slider.stops(oneEach(last + 1, (i) => i), at);
  }

  move(by) {
    this.slider.set(this.value + by);
    this.changed();
  }

  play() {
    if (this.value === this.last) this.slider.set(0);
    this.button.textContent = 'Pause';
    this.timer = setInterval(() => {
      this.move(1);
      if (this.value === this.last) this.stop();
    }, 900);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = 'Play';
  }
}
