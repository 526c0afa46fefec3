import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { readDataset } from '@osmosis/eval'
import { runs } from '../../../test/kit/index.ts'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

/** What from-traces makes of files with this content: its rows, and what it says. */
async function made(
  content: unknown,
  ...flags: readonly string[]
): Promise<{ rows: Record<string, unknown>[]; stderr: string; report: unknown }> {
  const folder = temporaryFolder()
  const [file, output, report] = ['traces.json', 'rows.jsonl', 'report.json'].map((name) =>
    path.join(folder, name),
  ) as [string, string, string]
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2))
  const args = ['dataset', 'from-traces', file, '--output', output, '--report', report]
  const { code, stderr } = await run([...args, ...flags])
  expect([code, stderr]).toEqual([0, expect.stringContaining('Kept')])
  const rows = readFileSync(output, 'utf8').trimEnd().split('\n')
  return {
    rows: rows.map((row) => JSON.parse(row) as Record<string, unknown>),
    stderr,
    report: JSON.parse(readFileSync(report, 'utf8')),
  }
}

const message = (role: string, content: string): unknown => ({
  role,
  parts: [{ type: 'text', content }],
})

/** An attribute as OTLP has it. */
const attribute = (key: string, value: unknown): unknown => ({
  key,
  value: { stringValue: typeof value === 'string' ? value : JSON.stringify(value) },
})

function otlp(...spans: readonly Record<string, unknown>[]): unknown {
  return { resourceSpans: [{ scopeSpans: [{ spans }] }] }
}

it('makes a row of the spans of a trace, in whatever order they come', async () => {
  const question = [message('system', 'Be short.'), message('user', 'The weather in Paris?')]
  const lines = [
    otlp({
      traceId: 'a1',
      startTimeUnixNano: '20',
      endTimeUnixNano: '30',
      attributes: [
        attribute('gen_ai.input.messages', [...question, message('assistant', 'I look.')]),
        attribute('gen_ai.output.messages', [message('assistant', 'Rainy.')]),
      ],
    }),
    otlp(
      {
        traceId: 'a1',
        startTimeUnixNano: '1',
        endTimeUnixNano: '10',
        attributes: [
          attribute('gen_ai.input.messages', question),
          attribute('gen_ai.output.messages', [
            { role: 'assistant', parts: [{ type: 'tool_call', id: '1', name: 'get_weather' }] },
          ]),
        ],
      },
      { traceId: 'a1', attributes: [attribute('gen_ai.tool.name', 'get_weather')] },
    ),
    {
      resourceLogs: [
        {
          scopeLogs: [
            {
              logRecords: [
                {
                  traceId: 'a1',
                  eventName: 'gen_ai.evaluation.result',
                  attributes: [
                    attribute('gen_ai.evaluation.name', 'user'),
                    attribute('gen_ai.evaluation.score.label', 'pass'),
                  ],
                },
              ],
            },
          ],
        },
      ],
    },
  ]
  const { rows, report } = await made(lines.map((line) => JSON.stringify(line)).join('\n'))
  expect(rows).toEqual([
    {
      user_prompt: 'The weather in Paris?',
      ground_truth: 'Rainy.',
      metadata: {
        tools: ['get_weather'],
        feedback: { user: 'pass' },
        source: 'otel',
        trace_id: 'a1',
      },
    },
  ])
  expect(report).toEqual({
    read: { records: 3, traces: 1 },
    kept: { rows: 1, with_ground_truth: 1 },
    left_out: {},
    replaced: {},
  })
})

it('reads spans as the exporters of SDKs print them', async () => {
  const { rows } = await made([
    {
      name: 'chat m',
      context: { trace_id: '0xb2', span_id: '0x1' },
      start_time: '2026-01-01T00:00:00Z',
      attributes: { 'gen_ai.input.messages': JSON.stringify([message('user', 'Hello?')]) },
      events: [],
    },
  ])
  expect(rows).toMatchObject([{ user_prompt: 'Hello?', ground_truth: null }])
})

it('makes the last question the prompt, and keeps what was said before it', async () => {
  const turns = [
    message('user', 'Hello'),
    message('assistant', 'Hi!'),
    message('user', 'And the time?'),
  ]
  const span = { traceId: 'a', attributes: [attribute('gen_ai.input.messages', turns)] }
  const { rows } = await made(otlp(span))
  expect(rows).toMatchObject([
    {
      user_prompt: 'And the time?',
      metadata: {
        messages: [
          { role: 'user', content: 'Hello' },
          { role: 'assistant', content: 'Hi!' },
        ],
      },
    },
  ])
})

it('reads traces, observations and scores of Langfuse', async () => {
  const observation = (trace: string, input: unknown, output: unknown): unknown => ({
    id: `o-${trace}`,
    trace_id: trace,
    type: 'GENERATION',
    name: 'chat',
    start_time: '2026-05-29 13:46:19.963000',
    input,
    output,
  })
  const score = (trace: string, fields: object): unknown => ({
    id: 's',
    trace_id: trace,
    ...fields,
  })
  const asked = (text: string): unknown => [{ role: 'user', content: text }]
  const { rows } = await made([
    observation('t1', asked('One?'), { role: 'assistant', content: '1' }),
    score('t1', { name: 'thumb', data_type: 'BOOLEAN', value: 1 }),
    observation('t2', JSON.stringify(asked('Two?')), { role: 'assistant', content: '3' }),
    score('t2', { name: 'thumb', data_type: 'BOOLEAN', value: 0 }),
    observation('t3', asked('Three?'), { role: 'assistant', content: '4' }),
    score('t3', { name: 'output', data_type: 'CORRECTION', string_value: '3' }),
    observation('t4', asked('Four?'), { role: 'assistant', content: '4' }),
    score('t4', { name: 'stars', data_type: 'NUMERIC', value: 1 }),
    {
      id: 't5',
      name: 'whole',
      input: { messages: asked('Five?') },
      output: '5',
      observations: [{ id: 'x', type: 'TOOL', name: 'count' }],
      scores: [{ name: 'stars', dataType: 'CATEGORICAL', value: 1, stringValue: 'good' }],
    },
  ])
  expect(rows.map((row) => [row['user_prompt'], row['ground_truth']])).toEqual([
    ['One?', '1'],
    ['Two?', null],
    ['Three?', '3'],
    ['Four?', null],
    ['Five?', '5'],
  ])
  expect(rows[4]).toMatchObject({ metadata: { source: 'langfuse', tools: ['count'] } })
})

it('reads traces of the OpenAI Agents SDK, and documents of conversations', async () => {
  const agents = await made({
    data: [
      { object: 'trace', id: 'trace_1', workflow_name: 'w' },
      {
        object: 'trace.span',
        id: 's2',
        trace_id: 'trace_1',
        started_at: '2026-01-01T00:00:01Z',
        span_data: { type: 'function', name: 'add', input: '{}', output: '3' },
      },
      {
        object: 'trace.span',
        id: 's1',
        trace_id: 'trace_1',
        started_at: '2026-01-01T00:00:00Z',
        ended_at: '2026-01-01T00:00:02Z',
        span_data: {
          type: 'response',
          _input: [{ type: 'message', role: 'user', content: 'What is 1 + 2?' }],
          _response: {
            instructions: 'Add.',
            output: [
              { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: '3' }] },
            ],
          },
        },
      },
    ],
  })
  expect(agents.rows).toEqual([
    {
      user_prompt: 'What is 1 + 2?',
      ground_truth: null,
      metadata: { tools: ['add'], source: 'openai-agents', trace_id: 'trace_1' },
    },
  ])
  const steps = [
    { step_id: 1, source: 'user', message: 'Say it.' },
    { step_id: 2, source: 'agent', message: 'it' },
  ]
  const document = (id: string, reward: number): unknown => ({
    schema_version: 'ATIF-v1.7',
    trajectory_id: id,
    agent: { name: 'a', version: '1' },
    steps,
    extra: { osmosis: { reward } },
  })
  const documents = [document('d1', 0.2), document('d2', 0.9)]
  const atif = await made(documents, '--good-score', '0.5')
  expect(atif.rows).toMatchObject([{ user_prompt: 'Say it.', ground_truth: 'it' }])
  expect(atif.report).toMatchObject({ left_out: { 'with the question of another': 1 } })
})

it('makes rows of a run, with the ids and answers of its dataset', async () => {
  const output = temporaryFolder()
  const dataset = path.join(output, 'ids.jsonl')
  const ids = ['a', '9007199254740993', 'c/d', undefined]
  writeFileSync(
    dataset,
    ids
      .map((id) => ({ id, user_prompt: 'one', ground_truth: 'one', metadata: { level: id } }))
      .map((row) => `${JSON.stringify(row)}\n`)
      .join(''),
  )
  const words = 'eval run configs/eval/echo.toml --policy policies/echo.ts --quiet --name traced'
  await run([...words.split(' '), '--dataset', dataset, '--output', output])
  const rows = path.join(output, 'rows.jsonl')
  const args = ['dataset', 'from-traces', path.join(output, 'traced'), '-o', rows]
  const { code, stderr } = await run(args)
  expect([code, stderr]).toEqual([0, expect.stringContaining('Kept      4 rows')])
  const read = await readDataset(rows)
  expect(read.map(({ otherColumns }) => otherColumns['id'])).toEqual([
    ...ids.slice(0, 3),
    expect.stringMatching(/^[0-9a-f]{16}$/),
  ])
  expect(read.map(({ label }) => label)).toEqual(ids.map(() => 'one'))
  expect(read.map(({ metadata }) => metadata?.['level'])).toEqual(ids)
})

const examples = path.resolve(import.meta.dirname, '../../../examples/traces')
/** What each of them asks, in the order of the files. */
const questionsOf: Record<string, readonly string[]> = {
  'atif.json': ['The capital of Cuba?'],
  'langfuse-anthropic.jsonl': ['The capital of Chile?'],
  'langfuse-observations.jsonl': ['The capital of Peru?'],
  'langfuse-trace.json': ['The capital of Nepal?'],
  'openai-agents.jsonl': ['The capital of Ghana?', 'The capital of Laos?'],
  'otel.json': ['The capital of Kenya?'],
}

it('reads the example of each format, with the instructions of the agent only if wanted', async () => {
  const files = readdirSync(examples).filter((file) => file !== 'README.md')
  expect(files.toSorted()).toEqual(Object.keys(questionsOf))
  for (const [file, questions] of Object.entries(questionsOf)) {
    const content = readFileSync(path.join(examples, file), 'utf8')
    const { rows } = await made(content)
    expect(rows.map(({ user_prompt: question }) => question)).toEqual(questions)
    expect(JSON.stringify(rows)).not.toContain('Be brief')
    const withSystem = await made(content, '--with-system')
    expect(withSystem.rows.map(({ system_prompt: system, ...row }) => [system, row])).toEqual(
      rows.map((row) => ['Be brief.', row]),
    )
  }
})

it.each([
  ['as text', 'Be brief.'],
  ['in blocks', [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]],
])('reads the instructions of requests to Anthropic %s', async (_, system) => {
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'look', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: 'seen' }] },
  ]
  for (const input of [{ system, messages }, JSON.stringify({ messages, system })]) {
    const trace = {
      id: 't',
      name: 'chat',
      input,
      output: { content: [{ type: 'text', text: 'A' }] },
    }
    for (const content of [trace, { trace, observations: [] }]) {
      const { rows } = await made(content, '--with-system')
      expect(rows).toMatchObject([{ system_prompt: 'Be brief.', user_prompt: 'Hi' }])
    }
  }
})

it('finds the question of a downloaded trace of Langfuse where one was recorded', async () => {
  const input = [{ role: 'user', content: 'One?' }]
  const observation = { id: 'o', traceId: 't', type: 'GENERATION', name: 'g', input, output: '1' }
  const scores = [{ id: 's', name: 'thumb', dataType: 'BOOLEAN', value: 1 }]
  const tool = { id: 'u', traceId: 't', type: 'TOOL', name: 'count', input: null, output: null }
  const { rows } = await made({
    trace: { id: 't', name: 'chat', input: null, output: null, scores, observations: [] },
    observations: [observation, tool],
  })
  expect(rows).toEqual([
    {
      user_prompt: 'One?',
      ground_truth: '1',
      metadata: { tools: ['count'], feedback: { thumb: true }, source: 'langfuse', trace_id: 't' },
    },
  ])
})

it.each([
  [
    'openai-agents',
    { object: 'trace.span', trace_id: 't', span_data: { type: 'response', response_id: 'r' } },
    'write span_data with _input and _response in a tracing processor of your own',
  ],
  [
    'otel',
    { traceId: 't', attributes: [] },
    'Spans have messages when their content is captured (OTEL_INSTRUMENTATION_GENAI_CAPTURE',
  ],
  [
    'langfuse',
    { id: 'o', trace_id: 't', type: 'GENERATION', name: 'g', input: null, output: null },
    'Langfuse has messages in the input of a trace, or of its generations: export these',
  ],
])('says what to export of %s where nothing was said', async (_, record, words) => {
  const file = path.join(temporaryFolder(), 'none.json')
  writeFileSync(file, JSON.stringify(record))
  const none = await run(['dataset', 'from-traces', file, '-o', `${file}l`])
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining(words)])
  // Beside traces of another format that say something.
  const other = { id: 't2', name: 'chat', input: 'Hi', output: '' }
  const spoken = {
    traceId: 't3',
    attributes: [attribute('gen_ai.input.messages', [message('user', 'Hi')])],
  }
  const { stderr } = await made([record, 'attributes' in record ? other : spoken])
  expect(stderr).toContain(words)
})

it('replaces keys and personal data by rule, and leaves other numbers and words alone', async () => {
  const key = `sk-proj-${'a1B2'.repeat(8)}`
  const asked = [
    `Key ${key}, header "Authorization: Bearer abcdefghij0123456789".`,
    'Mail jane.doe+x@example.co.uk, call +49 (0)30 1234567 or (415) 555-0132.',
    'Card 4111 1111 1111 1111, not 4111 1111 1111 1112. Host 10.0.0.7 and 2001:db8::ff00:42:8329.',
    'Order 123456789, at 12:30:45, version 1.2.3, std::vector, https://joe:secret@host/x, ACME-77.',
  ].join('\n')
  const span = {
    traceId: 'a',
    attributes: [attribute('gen_ai.input.messages', [message('user', asked)])],
  }
  const { rows, stderr } = await made(otlp(span), '--deny', 'ACME-\\d+', '--allow', '^10\\.')
  expect(rows[0]?.['user_prompt']).toBe(
    [
      'Key [api key], header "Authorization: Bearer [token]".',
      'Mail [email], call [phone] or [phone].',
      'Card [card], not 4111 1111 1111 1112. Host 10.0.0.7 and [ip address].',
      'Order 123456789, at 12:30:45, version 1.2.3, std::vector, https://[credentials]@host/x, [denied].',
    ].join('\n'),
  )
  expect(stderr).toContain(
    'Replaced  1 denied, 1 api key, 1 token, 1 credentials, 1 email, 1 ip address, 1 card, 2 phone',
  )
})

it('reads the same of all forms of a file, whatever texts and names have in them', async () => {
  const parts = [
    '"',
    '\\',
    '\\"',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '\n',
    'é',
    '\u2028',
    '"data":[',
    '"spans":[{',
    'resourceSpans',
  ]
  const text = fc.array(fc.constantFrom(...parts), { maxLength: 12 }).map((all) => all.join(''))
  const files = fc.sample(fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 6 }), {
    numRuns: runs(40),
    seed: 7,
  })
  for (const file of files) {
    const asked = file.map(([said], at) => `${at} ${said}`)
    const noise = file.map(([, other]) => ({
      [other]: { spans: [{ [other]: [other] }], data: [other] },
    }))
    const traces = asked.map((input, at) => ({
      ...noise[at],
      id: `t${at}`,
      name: 'n',
      input,
      output: 'o',
    }))
    const spans = asked.map((content, at) => ({
      ...noise[at],
      traceId: `t${at}`,
      attributes: [attribute('gen_ai.input.messages', [message('user', content)])],
    }))
    const forms = [
      traces.map((trace) => JSON.stringify(trace)).join('\n'),
      JSON.stringify(traces),
      JSON.stringify(traces, null, 2),
      JSON.stringify({ before: noise, data: traces, after: noise }),
      JSON.stringify(otlp(...spans)),
      JSON.stringify(
        {
          resourceSpans: [
            {
              scopeSpans: spans.map((span) => ({ scope: noise[0], spans: [span], schemaUrl: ']' })),
            },
          ],
        },
        null,
        1,
      ),
      JSON.stringify({ data: [otlp(...spans)] }),
    ]
    for (const form of forms) {
      const { rows } = await made(form)
      expect(rows.map(({ user_prompt: prompt }) => prompt)).toEqual(asked)
    }
  }
})

it('says what it left out, and refuses files without a question', async () => {
  const span = {
    traceId: 'a',
    attributes: [attribute('gen_ai.input.messages', [message('user', 'Hi')])],
  }
  const lines = [
    JSON.stringify(otlp(span)),
    JSON.stringify(otlp({ ...span, traceId: 'b' }, { traceId: 'c', attributes: [] })),
    '{"something": "else"}',
    '{broken}',
  ]
  const { stderr } = await made(lines.join('\n'))
  expect(stderr).toBe(
    [
      'Read      3 records, 3 traces',
      'Kept      1 row, 0 with a ground truth',
      'Left out  1 of no known format, 1 that are not JSON, 1 with the question of another, 1 without a question',
      'Replaced  nothing',
      '',
    ].join('\n'),
  )
  const file = path.join(temporaryFolder(), 'none.json')
  writeFileSync(file, '{"something": "else"}')
  const none = await run(['dataset', 'from-traces', file, '-o', `${file}l`])
  expect(none.code).toBe(2)
  expect(none.stderr).toContain('1 record read, left out: 1 of no known format')
  const wrong = await run(['dataset', 'from-traces', file, '-o', `${file}l`, '--deny', '('])
  expect(wrong.stderr).toContain("--deny must be a regular expression, got '('")
})
