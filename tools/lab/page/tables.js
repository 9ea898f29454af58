// The cheat sheet, and names that mean several things.

/** [parallelism, part of the page, when, what travels, row of the planner's sheet, link, what it costs] */
const CHEAT = [
  [
    'Data (DDP)', 'ddp', 'The model and its states fit on one GPU', 'gradients, once a step', 'sent_dp',
    'between hosts: hidden by the backward pass', 'states on every rank'
  ],
  [
    'ZeRO-1, ZeRO-2', 'zero', 'Weights fit, the optimizer’s states do not', 'the same bytes as DDP', 'sent_dp',
    'between hosts', 'ZeRO-2 sends once a micro-batch'
  ],
  ['Recomputation', 'recompute', 'Activations do not fit', 'nothing', '', 'none', 'up to a third more arithmetic'],
  [
    'ZeRO-3, FSDP', 'fsdp', 'Weights do not fit on one GPU', 'weights twice, gradients once', 'sent_dp',
    'between hosts, if a GPU has many tokens', '1.5 times DDP’s bytes, each micro-batch'
  ],
  [
    'Tensor', 'tensor', 'A layer is too large or too slow on one GPU', 'hidden states, 4 all-reduces a layer',
    'sent_tp', 'inside a host (NVLink): the next layer waits for it', 'tp ≤ GPUs of a host'
  ],
  [
    'Sequence (Megatron)', 'tensor', 'With tensor parallelism, always', 'the same bytes', 'sent_tp', 'inside a host',
    'nothing'
  ],
  [
    'Pipeline', 'pipeline', 'Many hosts, and many micro-batches', 'hidden states between stages', 'sent_pp',
    'between hosts: smallest messages', 'the bubble'
  ],
  [
    'Context (ring)', 'context', 'Sequences too long for one GPU', 'keys and values', 'sent_cp',
    'between hosts, if blocks are long', 'short blocks show their messages'
  ],
  [
    'Context (Ulysses)', 'context', 'Long sequences, enough heads', 'queries, keys, values, outputs', '',
    'inside a host, or a fast network: all-to-all', 'at most as many ranks as heads'
  ],
  [
    'Expert', 'moe', 'A mixture of experts', 'tokens, 4 all-to-alls a layer', 'sent_ep',
    'all-to-all between hosts: the fastest network', 'the fullest expert sets the pace'
  ],
];

/** [name, [[whose, what it is]]] */
const SEVERAL = [
  [
    'Sequence parallelism',
    [
      [
        'Megatron-LM (Korthikanti 2022)',
        'norms and dropout of tensor-parallel ranks on a part of the tokens each: `tutti train --tp --sp`'
      ],
      [
        'Li 2021; ring attention (Liu 2023)',
        'tokens on several ranks, keys and values go round; Megatron-LM calls it context parallelism: `--cp --cp-mode ring`'
      ],
      [
        'DeepSpeed-Ulysses (Jacobs 2023)',
        'tokens on several ranks, an all-to-all gives each some heads of all tokens: `--cp --cp-mode ulysses`'
      ]
    ]
  ],
  [
    'Model parallelism',
    [
      ['Megatron-LM (Shoeybi 2019)', 'tensor parallelism'],
      ['older texts', 'layers on several devices, one after the other: a pipeline of one micro-batch'],
      ['ZeRO (Rajbhandari 2020)', 'everything that is not data parallelism']
    ]
  ],
  [
    'FSDP',
    [
      ['PyTorch (Zhao 2023), FULL_SHARD', 'ZeRO-3: `--zero 3`'],
      [
        'SHARD_GRAD_OP',
        'ZeRO-3 without the second gather: weights stay from forward to backward: `--zero 3 --keep-gathered`'
      ],
      ['HYBRID_SHARD', 'ZeRO-3 inside a host, copies of it on the others']
    ]
  ],
  [
    'Activation checkpointing',
    [
      ['Chen 2016', 'recomputation, also called rematerialization: `--checkpoint-activations`'],
      ['not', 'a checkpoint, which is written to disk']
    ]
  ],
  [
    'Data parallelism',
    [
      ['torch.nn.DataParallel', 'one process, one GPU collects all gradients: a parameter server'],
      ['DistributedDataParallel', 'an all-reduce of buckets, a process a GPU']
    ]
  ],
  [
    'Expert parallelism',
    [
      ['GShard (Lepikhin 2020)', 'experts on several ranks'],
      ['DeepSpeed-MoE', 'the same; with data parallelism of the rest: `--ep`']
    ]
  ],
];

/** Text with `code`. */
function coded(text) {
  return text.split('`').map((part, i) => i % 2 === 1 ? element('code', {}, part) : part);
}

function showTables() {
  const head = ['parallelism', 'when', 'what travels', 'bytes', 'link', 'price'];
  const line = ([name, part, when, travels, row, link, price]) => {
    const cells = [when, travels, row === '' ? '' : step.rows.find((r) => r.name === row).formula, link, price];
    return element(
        'tr', {}, element('th', {scope: 'row'}, element('a', {href: `#${part}`}, name)),
        ...cells.map((text, i) => element('td', {class: i === 2 ? 'formula' : '', 'data-head': head[i + 1]}, text)));
  };
  fill(
      'cheat-table',
      element(
          'table', {class: 'plain cheat'}, element('caption', {}, 'Which parallelism when'),
          element('thead', {}, element('tr', {}, ...head.map((text) => element('th', {scope: 'col'}, text)))),
          element('tbody', {}, ...CHEAT.map(line))));
  fill(
      'names-list',
      ...SEVERAL.map(
          ([name, meanings]) => element(
              'div', {class: 'claim'}, element('dt', {}, name),
              ...meanings.map(([whose, what]) => element('dd', {}, element('b', {}, `${whose}: `), ...coded(what))))));
}
