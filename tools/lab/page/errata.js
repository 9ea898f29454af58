// What teaching texts commonly get wrong. Every number is computed by the page's own formulas, or stands in the paper
// named.

/** One value of a layout of a model of Ψ parameters, by the planner's sheet. */
const stepOf = (Ψ, more) => computeStep({...states(Ψ), ...more});

/** ZeRO's part of the page with 7B on N ranks of P parts. */
const zeroSliders = (N, P, precision) =>
    ({'zero-precision': precision, 'zero-size': 7e9, 'zero-ranks': N, 'zero-parts': P, 'zero-memory': 80e9});

/** [claim, what is true, the part that shows it, its name, sliders and list boxes with which it shows these numbers] */
function errata() {
  const zero = (more) => compute.zero({Ψ: 7e9, N: 64, P: 1, M: 80e9, ...PRECISIONS[0][1], ...more});
  const mixed = zero({}), single = zero({N: 1e9, ...PRECISIONS[1][1]}), limit = zero({N: 1e9}),
        eight = zero({N: 8, P: 4});
  const ring = computeRing({n: 8, S: 4e9}), a100 = data.clusters.find((c) => c.name === 'a100');
  const ddp = compute.ddp({Ψ: 7e9, n: 8, T: 4096, bucket: 1e9, W: a100.W_out, α: a100.α_out, F: a100.F, e: 0.5});
  const fsdp = compute.fsdp({Ψ: 7e9, U: 32, N: 64, T: 4096, W: a100.W_out, F: a100.F, e: 0.5});
  const tensor = compute.tensor({h: 4096, f: 16384, T: 4096, t: 8, W: a100.W_in, α: 0, F: a100.F, e: 1});
  const price = compute.price({Ψ: 7e9, D: 1e12, G: 1, F: a100.F, e: 0.5, price: 2});
  const gpipe = stepOf(7e9, {B: 8, pp: 4, G: 4, sched: 0}), alternating = stepOf(7e9, {B: 8, pp: 4, G: 4, sched: 1});
  const layer = stepOf(7e9, {B: 1}), share = (value) => format(value, 'share'),
        of = (name, value, unit) => number(`err-${name}`, value, unit);
  const times = (name, value) => [of(name, value, ''), ' ×'];
  return [
    [
      '“GPT-3’s weights take 700 GB in half precision.”',
      ['2 bytes · 175 billion = ', of('gpt3', states(175e9).weights, 'B'), '. 700 GB are the weights in f32.'], 'wall',
      'Memory wall', {'wall-size': 175e9}
    ],
    [
      '“A 7B model has 14 GB, so it trains on a GPU of 24 GB.”',
      [
        '14 GB are the weights. Adam in mixed precision holds 16 bytes a parameter, ',
        of('adam', states(7e9).states, 'B'), ', and activations.'
      ],
      'wall', 'Memory wall', {'wall-size': 7e9, 'wall-memory': 24e9}
    ],
    [
      '“ZeRO-1 needs 4 × less memory, ZeRO-2 8 ×.”',
      [
        'Only for N → ∞: with N = 64, ', ...times('zero1', mixed.z0 / mixed.z1), ' and ',
        ...times('zero2', mixed.z0 / mixed.z2), '.'
      ],
      'zero', 'ZeRO', zeroSliders(64, 1, 0)
    ],
    [
      '“ZeRO’s 4 × and 8 × hold in every precision.”',
      [
        'They belong to mixed precision (for many ranks ', ...times('mixed1', limit.z0 / limit.z1), ', ',
        ...times('mixed2', limit.z0 / limit.z2), '), where Adam holds 12 of 16 bytes. All in f32 it holds 8 of 16: ',
        ...times('f32-1', single.z0 / single.z1), ' and ', ...times('f32-2', single.z0 / single.z2), '.'
      ],
      'zero', 'ZeRO', zeroSliders(1024, 1, 1)
    ],
    [
      '“64 A100s hold a model of 20.5 B.”',
      [
        'Of ZeRO-1 it is ', billions('err-most1', mixed.most1),
        '. ZeRO-3 divides all 16 bytes: 80 GB · 64 / 16 = ', billions('err-most3', mixed.most3), '.'
      ],
      'zero', 'ZeRO', zeroSliders(64, 1, 0)
    ],
    [
      '“7B, ZeRO-3, N = 8 replicas of P = 4 parts: 14 GB a GPU.”',
      ['14 GB are 112 GB / 8. The parts divide too: 112 GB / (8·4) = ', of('parts', eight.z3, 'B'), '.'], 'zero',
      'ZeRO', zeroSliders(8, 4, 0)
    ],
    [
      '“ZeRO-3 sends as much as data parallelism”, or “twice as much”.',
      [
        '3Ψ elements against 2Ψ: ', of('zero3', fsdp.sent_fsdp / fsdp.sent_ddp - 1, 'share'),
        ' more. Weights are gathered twice, gradients scattered once. 7B on 64 ranks: ',
        of('fsdp', fsdp.sent_fsdp, 'B'), ' against ', of('fsdp-dp', fsdp.sent_ddp, 'B'), '.'
      ],
      'fsdp', 'FSDP', {'fsdp-size': 7e9, 'fsdp-ranks': 64}
    ],
    [
      '“An all-reduce sends 2·S bytes a rank.”',
      [
        '2·(n − 1)/n·S: 4 GB over 8 ranks are ', of('ring', ring.ring_sent, 'B'),
        ', not 8 GB. 2·S is the limit for many ranks. The 14 GB of gradients of a 7B ' +
            'model on 8 ranks are ',
        of('ddp', ddp.sent, 'B'), '.'
      ],
      'ring', 'Ring all-reduce', {'ring-ranks': 8, 'ring-bytes': 4e9}
    ],
    [
      '“The bubble is (p − 1)/m.”',
      [
        'That is the bubble by the ideal time. Of the whole step it is (p − 1)/(m + p − 1): p = 4, m = 8 gives ',
        of('bubble', alternating.bubble, 'share'), `, not ${share(3 / 8)}.`
      ],
      'pipeline', 'Pipeline', {'pipe-schedule': 1, 'pipe-p': 4, 'pipe-m': 8}
    ],
    [
      '“1F1B has a smaller bubble than GPipe.”',
      [
        'The same: ', of('gpipe', gpipe.bubble, 'share'), ' and ', of('1f1b', alternating.bubble, 'share'),
        ' with p = 4, m = 8. It holds less: activations of ', of('held', alternating.q, ''), ' micro-batches, not ',
        of('held-gpipe', gpipe.q, ''), '.'
      ],
      'pipeline', 'Pipeline', {'pipe-schedule': 0, 'pipe-p': 4, 'pipe-m': 8}
    ],
    [
      '“Inside a host, tensor parallelism’s all-reduce is 3 % of the MLP’s time.”',
      [
        'h = 4096, 4096 tokens, 8 A100 at their peak, no latency: ', of('tp-comm', tensor.t_comm, 's'), ' against ',
        of('tp-mlp', tensor.t_mlp, 's'), ', ', of('tp-by', tensor.by, 'share'), '.'
      ],
      'tensor', 'Tensor', {
        'tensor-gpu': 'a100',
        'tensor-split': 0,
        'tensor-hidden': 4096,
        'tensor-tokens': 4096,
        'tensor-ranks': 8,
        'tensor-link': a100.W_in,
        'tensor-latency': 0,
        'tensor-share': 1
      }
    ],
    [
      '“Activations take 2 bytes · s · d · layers.”',
      [
        'That is one tensor a layer: ', of('one', layer.L * 2 * layer.x, 'B'),
        ' for 7B and 4096 tokens. A layer keeps about sixteen such (queries, keys, values, ' +
            'the MLP’s inner ones): ',
        of('kept', layer.L * layer.A_0, 'B'), '.'
      ],
      'recompute', 'Recomputation', {'rec-layers': layer.L, 'rec-kept': 16, 'rec-tokens': 4096, 'rec-hidden': 4096}
    ],
    [
      '“7B on 10¹² tokens takes 355 A100-years.”',
      [
        '6·Ψ·D / (312 TFLOP/s · 50 %) = ', of('years', price.years, ''),
        ' years. 355 are GPT-3’s 3.14·10²³ FLOP (Brown 2020, app. D) at 28 TFLOP/s of a V100.'
      ],
      'price', 'Price', {'price-gpu': 'a100', 'price-size': 7e9, 'price-tokens': 1e12, 'price-share': 0.5}
    ],
    [
      '“BLOOM has 530 billion parameters.”', ['BLOOM has 176 (Le Scao 2022); 530 is Megatron-Turing NLG (Smith 2022).'],
      'published', 'Published runs', {}
    ],
    [
      '“OPT-175B was trained with pipeline parallelism.”',
      ['FSDP and Megatron’s tensor parallelism, no pipeline (Zhang 2022, §2.4).'], 'published', 'Published runs', {}
    ],
  ];
}

function showErrata() {
  fill(
      'errata-list',
      ...errata().map(
          ([claim, truth, part, name, settings]) => element(
              'div', {class: 'claim'}, element('dt', {}, claim),
              element(
                  'dd', {}, ...truth, ' ',
                  element('a', {href: `#${part}`, onclick: () => pose(settings)}, `See: ${name}`)))));
}
