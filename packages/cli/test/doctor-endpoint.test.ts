import type { ServerResponse } from 'node:http'

import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { serveAs, type Habits } from './endpoint-servers.ts'
import { run } from './in-process.ts'
import { endpoint, refuse } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

type Answering = Parameters<typeof endpoint>[0]

/** What `osmosis doctor` finds at an endpoint. */
interface Examined {
  readonly code: number | null
  /** As it is printed. */
  readonly stdout: string
  /** Without line breaks and the indents behind them. */
  readonly text: string
}

async function examineUrl(url: string): Promise<Examined> {
  const flags = ['--base-url', url, '--model', 'policy']
  const { code, stdout } = await run(['doctor', ...flags], {}, temporaryFolder())
  return { code, stdout, text: stdout.replaceAll(/\s+/g, ' ') }
}

async function examine(answer: Answering): Promise<Examined> {
  const { url } = await endpoint(answer)
  return examineUrl(`${url}/v1`)
}

const refusing =
  (status: number, message: string, headers: Readonly<Record<string, string>> = {}): Answering =>
  (_, response) => {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    refuse(response, status, message)
  }

/** A page where an answer should be. */
function badGateway(_: unknown, response: ServerResponse): void {
  response
    .writeHead(502, { 'content-type': 'text/html', server: 'nginx/1.29.1' })
    .end('<html><head><title>502 Bad Gateway</title></head></html>')
}

const liteLlm = { 'x-litellm-version': '1.80.0', server: 'uvicorn' }

/** Kinds of servers, each with what it does otherwise than a vLLM that was started for training. */
const servers: Readonly<Record<string, Partial<Habits> | Answering>> = {
  'vLLM for training': {},
  'vLLM, reasoning parser': { thinksIn: 'reasoning' },
  'vLLM before reasoning': { thinksIn: 'reasoning_content' },
  'vLLM, folder defaults': { drawsAsStated: false, scalesLogprobs: false },
  'vLLM, no tool parser': { tools: 'refused' },
  'vLLM, wrong tool parser': { tools: 'left in the text' },
  'vLLM, stream not parsed': { tools: 'left in the text of streams' },
  'vLLM, ids swallowed': { streamLoses: 'tokens of calls' },
  'vLLM before 0.10.2': { ids: 'none' },
  'vLLM, --max-logprobs 0': { logprobs: 'none' },
  'a template that forgets': { keepsPrefixes: false },
  'a model that calls none': { callsTool: false },
  SGLang: { ids: 'none', thinksIn: 'reasoning_content', streamLoses: 'logprobs of thinking' },
  'llama.cpp': {
    ids: 'none',
    streams: 'no logprobs with tools',
    drawsAsStated: false,
    scalesLogprobs: false,
  },
  OpenAI: { refuses: 'return_token_ids' },
  'LiteLLM, streams cut': { ids: 'unstreamed', headers: liteLlm },
  'LiteLLM, all cut': { ids: 'none', headers: liteLlm },
  'Helicone, from a cache': { heedsTemperature: false, headers: { 'helicone-id': '1' } },
  'nginx, nothing wrong': { headers: { server: 'nginx/1.29.1' } },
  'nginx, server gone': badGateway,
  'no usage in streams': { streams: 'without usage' },
  'no streams': { streams: 'no, one object' },
  'streams refused': { streams: 'refused' },
  'streams that break off': { streams: 'breaks off' },
  'a wrong key (401)': refusing(401, 'no such key'),
  'no rights (403)': refusing(403, 'no such key'),
  'no such model (404)': refusing(404, 'The model policy does not exist.'),
  'too many calls (429)': refusing(429, 'too many requests'),
  'loading (503)': refusing(503, 'Loading model'),
  'something else (400)': refusing(400, 'Something else'),
  slow: () => {},
}

/**
 * What doctor finds at each of them: o is ok, W a warning, F a failure, and nothing where it says nothing. "lost" is what only a
 * stream lacks: I token ids, L logprobs, C tool calls, U usage, S the stream itself, and o where it lacks nothing.
 */
const expected = `
server                  | endpoint | gateway | ids | logprobs | tools | lost | prefixes | temperature | sampling | scale
vLLM for training       | o        |         | o   | o        | o     | o    | o        | o           | o        | o
vLLM, reasoning parser  | o        |         | o   | o        | o     | o    | o        | o           | o        | o
vLLM before reasoning   | o        |         | o   | o        | o     | o    | o        | o           | o        | o
vLLM, folder defaults   | o        |         | o   | o        | o     | o    | o        | o           | W        | W
vLLM, no tool parser    | o        |         | o   | o        | F     | o    | o        | o           | o        | o
vLLM, wrong tool parser | o        |         | o   | o        | F     | o    | o        | o           | o        | o
vLLM, stream not parsed | o        |         | o   | o        | o     | C    | o        | o           | o        | o
vLLM, ids swallowed     | o        |         | o   | o        | o     | I    | o        | o           | o        | o
vLLM before 0.10.2      | o        |         | F   | o        | o     | o    | W        | o           | o        | o
vLLM, --max-logprobs 0  | o        |         | o   | F        | o     | o    | o        | o           | W        | W
a template that forgets | o        |         | o   | o        | o     | o    | W        | o           | o        | o
a model that calls none | o        |         | o   | o        | W     | o    | o        | o           | o        | o
SGLang                  | o        |         | F   | o        | o     | L    | W        | o           | o        | o
llama.cpp               | o        |         | F   | o        | o     | S    | W        | o           | W        | W
OpenAI                  | F        |         |     |          |       |      |          |             |          |
LiteLLM, streams cut    | o        | o       | o   | o        | o     | I    | o        | o           | o        | o
LiteLLM, all cut        | o        | o       | F   | o        | o     | o    | W        | o           | o        | o
Helicone, from a cache  | o        | o       | o   | o        | o     | o    | o        | F           | o        | o
nginx, nothing wrong    | o        | o       | o   | o        | o     | o    | o        | o           | o        | o
nginx, server gone      | F        | o       |     |          |       |      |          |             |          |
no usage in streams     | o        |         | o   | o        | o     | U    | o        | o           | o        | o
no streams              | o        |         | o   | o        | o     | o    | o        | o           | o        | o
streams refused         | o        |         | o   | o        | o     | S    | o        | o           | o        | o
streams that break off  | o        |         | o   | o        | o     | S    | o        | o           | o        | o
a wrong key (401)       | F        |         |     |          |       |      |          |             |          |
no rights (403)         | F        |         |     |          |       |      |          |             |          |
no such model (404)     | F        |         |     |          |       |      |          |             |          |
too many calls (429)    | F        |         |     |          |       |      |          |             |          |
loading (503)           | F        |         |     |          |       |      |          |             |          |
something else (400)    | F        |         |     |          |       |      |          |             |          |
slow                    | F        |         |     |          |       |      |          |             |          |
`

/** What it says of the findings that are not ok, as far as it helps. */
const advice: Readonly<Record<string, readonly string[]>> = {
  'vLLM, folder defaults': ['--generation-config vllm', '--logprobs-mode processed_logprobs'],
  'vLLM, no tool parser': ['refuses tools', '--enable-auto-tool-choice', '--tool-call-parser'],
  'vLLM, wrong tool parser': ['--tool-call-parser'],
  'vLLM, stream not parsed': ['Only when it streams: The model called the tool in its text'],
  'vLLM, ids swallowed': [
    'Only when it streams: These are not the ids of the whole answer: the endpoint gave 1 token ids, and counts 44 tokens.',
    'start it without that parser',
  ],
  'vLLM before 0.10.2': ['vLLM 0.10.2 or newer', 'Not checked: there are no token ids.'],
  'vLLM, --max-logprobs 0': ['logprobs: true', 'no top_logprobs'],
  'a template that forgets': ['at token 7 of 126, within the prompt'],
  'a model that calls none': ['Try a larger model'],
  SGLang: ['Only when it streams: The answer has 44 logprobs for 48 tokens.'],
  'llama.cpp': [
    'refuses to stream what it answered in one piece',
    'llama-server has none with --top-k 0 --top-p 1 --min-p 0',
  ],
  OpenAI: ['argument supplied: return_token_ids', 'does not take this request'],
  'LiteLLM, streams cut': [
    'LiteLLM answered, in front of a server',
    'Only when it streams: The answer has no choices[0].token_ids',
    'This may be the doing of LiteLLM, not of the server behind: ask that one directly.',
  ],
  'LiteLLM, all cut': ['The answer has no choices[0].token_ids', 'the doing of LiteLLM'],
  'Helicone, from a cache': ['caches answers', 'the doing of Helicone'],
  'nginx, server gone': ['502 Bad Gateway', 'the doing of nginx'],
  'no usage in streams': ['44 token ids, and no usage', 'stream_options.include_usage'],
  'streams refused': ['The endpoint answered 400', 'streaming is not supported'],
  'streams that break off': ['The streamed answer is broken', 'use no answer that breaks off'],
  'a wrong key (401)': ['no such key', '--api-key-env names the variable that holds one'],
  'no rights (403)': ['no such key', '--api-key-env names the variable that holds one'],
  'no such model (404)': ['The model policy does not exist.', '/models lists them'],
  'too many calls (429)': ['too many requests', 'loading, busy or broken'],
  'loading (503)': ['Loading model', 'loading, busy or broken'],
  'something else (400)': ['Something else', 'read what it says'],
  slow: ['no answer within 60 s'],
}

const columns: readonly string[] = [
  'endpoint',
  'gateway',
  'token ids',
  'logprobs',
  'tool calls',
  'stream',
  'prefixes',
  'temperature',
  'sampling',
  'logprob scale',
]
const letters: Readonly<Record<string, string>> = { ok: 'o', warn: 'W', fail: 'F' }
const lostIn: Readonly<Record<string, string>> = {
  'stream ids': 'I',
  'stream logprobs': 'L',
  'stream calls': 'C',
}

/** The findings as a row of the table has them. */
function rowOf(stdout: string): string[] {
  const found = Array.from(stdout.matchAll(/^(ok|warn|fail) +(\S.*?) {2,}/gm), (line) => {
    const [, level = '', check = ''] = line
    if (check in lostIn) return ['stream', lostIn[check]] as const
    if (check !== 'stream' || level === 'ok') return [check, letters[level]] as const
    return [check, level === 'warn' ? 'U' : 'S'] as const
  })
  for (const [check] of found) expect(columns).toContain(check)
  return columns.map((column) =>
    found
      .filter(([check]) => check === column)
      .map(([, letter]) => letter)
      .join(''),
  )
}

const rows = expected
  .trim()
  .split('\n')
  .slice(1)
  .map((line) => line.split('|').map((cell) => cell.trim()))

describe('osmosis doctor --base-url', () => {
  it.each(rows)('at a server of the kind "%s"', async (name, ...verdicts) => {
    const server = servers[name] ?? {}
    if (name === 'slow') {
      const timeout = AbortSignal.timeout.bind(AbortSignal)
      const inTime = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => timeout(ms / 200))
      onTestFinished(() => inTime.mockRestore())
    }
    const { code, stdout, text } = await examine(
      typeof server === 'function' ? server : serveAs(server),
    )
    expect(rowOf(stdout)).toEqual(verdicts)
    for (const words of advice[name] ?? []) expect(text).toContain(words)
    expect(code).toBe(/[FILCS]/.test(verdicts.join('')) ? 1 : 0)
  })

  it('has a row for each kind of server', () => {
    expect(rows.map(([name]) => name)).toEqual(Object.keys(servers))
  })

  it('prints one line for each check of an endpoint that gives a trainer what it needs', async () => {
    const { stdout } = await examine(serveAs({}))
    expect(stdout.trimEnd().split('\n')).toEqual([
      'ok    endpoint       policy answered',
      'ok    token ids      82 of the prompt, 44 of the answer',
      'ok    logprobs       one for each token of the answer',
      'ok    tool calls     are parsed',
      'ok    stream         has what an answer in one piece has',
      'ok    prefixes       the second turn continues the tokens of the first',
      'ok    temperature    is that of the request',
      'ok    sampling       tokens are drawn as their logprobs say',
      'ok    logprob scale  logprobs are those of the sampled distribution',
    ])
  })

  it.each([
    ['x-litellm-call-id', '1', 'LiteLLM'],
    ['x-portkey-trace-id', '1', 'Portkey'],
    ['cf-aig-log-id', '1', 'Cloudflare AI Gateway'],
    ['Helicone-Status', 'success', 'Helicone'],
    ['X-Generation-Id', 'gen-1', 'OpenRouter'],
    ['X-Kong-Upstream-Latency', '1', 'Kong'],
    ['via', '1.1 kong/3.9.0', 'Kong'],
    ['x-envoy-upstream-service-time', '1', 'Envoy'],
    ['server', 'envoy', 'Envoy'],
    ['server', 'nginx', 'nginx'],
    ['server', 'uvicorn', undefined],
    ['x-generation-id', 'mine', undefined],
    ['cf-ray', '1', undefined],
  ])('names the gateway that says %s: %s', async (name, value, gateway) => {
    const { stdout } = await examine(refusing(401, 'no such key', { [name]: value }))
    const [, named] = /^ok +gateway +(.*) answered/m.exec(stdout) ?? []
    expect(named).toBe(gateway)
  })

  it('asks again for a call that a model leaves out of a stream', async () => {
    const [calls, leavesOut] = [serveAs({}), serveAs({ callsTool: false })]
    let streamed = 0
    const { stdout } = await examine((request, response) => {
      if (request.body['stream'] === true) streamed += 1
      const isFirst = request.body['stream'] === true && streamed === 1
      ;(isFirst ? leavesOut : calls)(request, response)
    })
    expect(stdout).toContain('ok    stream ')
    expect(streamed).toBe(2)
  })

  it('reports what it found when one call fails', async () => {
    const good = serveAs({})
    const { code, stdout } = await examine((request, response) => {
      if (request.body['temperature'] === 0) refuse(response, 400, 'temperature must be above 0')
      else good(request, response)
    })
    expect(stdout).toContain('ok    prefixes')
    expect(stdout).toContain('ok    logprob scale')
    expect(stdout).toContain('The endpoint answered 400')
    expect(code).toBe(1)
  })

  it('reports an endpoint that is not there', async () => {
    const { code, stdout } = await examineUrl('http://127.0.0.1:9/v1')
    expect(stdout).toContain('cannot be reached')
    expect(code).toBe(1)
  })
})
